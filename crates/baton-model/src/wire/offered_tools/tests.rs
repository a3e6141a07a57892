use super::*;

fn tools(name: &str) -> Arc<[ToolSpec]> {
    Arc::from([ToolSpec { name: name.to_owned(), ..ToolSpec::default() }])
}

#[test]
fn the_same_tools_are_kept_once_and_equal_ones_are_others() {
    let (offers, one, equal) = (OfferedToolsCache::default(), tools("a"), tools("a"));
    let (first, other) = (offers.get(&one), offers.get(&equal));
    assert!(Arc::ptr_eq(&first, &offers.get(&one)));
    assert!(Arc::ptr_eq(&other, &offers.get(&equal)));
    assert!(!Arc::ptr_eq(&first, &other));
}

#[test]
fn a_text_is_written_once_for_each_format_and_only_for_its_own_tools() {
    let (one, equal) = (tools("a"), tools("a"));
    let offered = OfferedTools::new(&one);
    let text =
        |wire, tools: &Arc<[ToolSpec]>, text: &str| offered.text(wire, tools, || text).get().to_owned();
    let written = [
        text(Wire::Ollama, &one, "first"),
        text(Wire::Ollama, &one, "second"),
        text(Wire::Anthropic, &one, "third"),
        text(Wire::Ollama, &equal, "fourth"),
        OfferedTools::uncached(&one).text(Wire::Ollama, &one, || "fifth").get().to_owned(),
    ];
    assert_eq!(written, [r#""first""#, r#""first""#, r#""third""#, r#""fourth""#, r#""fifth""#]);
}

#[test]
fn the_least_recently_used_list_goes_first() {
    let offers = OfferedToolsCache::default();
    let lists: Vec<_> = (0..=MAX_LISTS).map(|n| tools(&format!("t{n}"))).collect();
    let kept: Vec<_> = lists[..MAX_LISTS].iter().map(|tools| offers.get(tools)).collect();
    offers.get(&lists[0]);
    offers.get(&lists[MAX_LISTS]);
    assert_eq!(offers.lists.lock().unwrap().len(), MAX_LISTS);
    assert!(Arc::ptr_eq(&kept[0], &offers.get(&lists[0])));
    assert!(!Arc::ptr_eq(&kept[1], &offers.get(&lists[1])));
    // What is not kept there is let go of.
    drop(kept);
    assert_eq!(Arc::strong_count(&lists[2]), 1);
}
