use proptest::prelude::*;

use super::*;

fn outline(page: &str) -> Outline {
    from_html(page, &"https://a.example/dir/page?q".parse().unwrap())
}

fn html(page: &str) -> String {
    outline(page).html
}

#[test]
fn only_elements_that_markdown_knows_are_kept() {
    let table = [
        ("a <span class=x>b</span> <font>c</font>", "a b c"),
        ("<section id=1><strong>a</strong></section>", "<div><b>a</b></div>"),
        ("<svg><title>no</title><svg/><path d=''/></svg>a<svg/>b", "ab"),
        ("a<script>b</script>c<noscript><p>d</noscript>", "ac"),
        ("<img alt='a \"b\" &lt;'><img src=x>", "a &quot;b&quot; &lt;"),
        ("1 < 2 &amp; &eacute;", "1 &lt; 2 &amp; &eacute;"),
        ("<hr/>a<br></br>", "<hr>a<br>"),
        ("<option>a<button>b", "ab"),
    ];
    for (page, expected) in table {
        assert_eq!(html(page), expected, "{page}");
    }
}

#[test]
fn broken_markup_is_balanced() {
    let table = [
        ("<div><b>a", "<div><b>a</b></div>"),
        ("<b><i>a</b>b</i>", "<b><i>a</i></b>b"),
        ("</div>a</b></p>", "a"),
        ("<p>a<p>b<div>c", "<p>a</p><p>b</p><div>c</div>"),
        ("<p><b>a<p>b", "<p><b>a</b></p><p>b</p>"),
        ("<ul><li>a<li>b</ul>c", "<ul><li>a</li><li>b</li></ul>c"),
        (
            "<ul><li>a<ul><li>b</li><li>c</ul><li>d</ul>",
            "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul>",
        ),
        (
            "<table><tr><td>a<td>b<tr><td>c</table>",
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
        ),
        ("<td>a<tr>b", "ab"),
        ("<div><table><tr><td></div>a</table></div>b", "<div><table><tr><td>a</td></tr></table></div>b"),
        ("<b><div>a</b>b</div>c", "<b><div>ab</div>c</b>"),
        ("<h1>a<h2>b", "<h1>a</h1><h2>b</h2>"),
        ("<dl><dt>a<dd>b<dt>c</dl>", "<div><p>a</p><p>b</p><p>c</p></div>"),
    ];
    for (page, expected) in table {
        assert_eq!(html(page), expected, "{page}");
    }
}

#[test]
fn links_are_complete_and_lead_to_pages() {
    let table = [
        ("<a href=x>a</a>", "<a href=\"https://a.example/dir/x\">a</a>"),
        ("<a href='//b.example/?a=1&amp;b=2'>a</a>", "<a href=\"https://b.example/?a=1&amp;b=2\">a</a>"),
        ("<a href='#top'>a</a>", "<a href=\"https://a.example/dir/page?q#top\">a</a>"),
        ("<a href='x\"><script>'>a</a>", "<a href=\"https://a.example/dir/x%22%3E%3Cscript%3E\">a</a>"),
        ("<a href=javascript:alert(1)>a</a>", "a"),
        ("<a href=' java&#115;cript:x'>a</a>", "a"),
        ("<a href=data:text/html,x>a</a>", "a"),
        ("<a name=x>a</a>", "a"),
        ("<a href=http://[>a</a>", "a"),
        (
            "<a href=x>a<a href=y>b",
            "<a href=\"https://a.example/dir/x\">a</a><a href=\"https://a.example/dir/y\">b</a>",
        ),
    ];
    for (page, expected) in table {
        assert_eq!(html(page), expected, "{page}");
    }
    assert_eq!(html(&format!("<a href=/{}>a</a>", "x".repeat(MAX_LINK))), "a");
}

#[test]
fn the_first_title_counts() {
    let table = [
        ("<title>A</title><title>B</title>", Some("A")),
        ("<title> a&#8211;b\n &copy; &x; &amp;amp; &#0; & </title>", Some("a–b © &x; &amp; &#0; &")),
        ("<svg><title>no</title></svg><title>A", Some("A")),
        ("<title> </title>", None),
        ("<script>x</script>", None),
    ];
    for (page, title) in table {
        assert_eq!(outline(page).title.as_deref(), title, "{page}");
    }
}

#[test]
fn elements_beyond_the_limits_are_left_out_with_their_end_tags() {
    let deep = format!("{}x{}<p>y", "<div>".repeat(MAX_DEPTH + 2), "</div>".repeat(MAX_DEPTH + 2));
    let expected = format!("{}  x  {}<p>y</p>", "<div>".repeat(MAX_DEPTH), "</div>".repeat(MAX_DEPTH));
    assert_eq!(outline(&deep), Outline { title: None, html: expected, flattened: true });
    let many = "<br>".repeat(MAX_ELEMENTS + 1);
    let expected = "<br>".repeat(MAX_ELEMENTS);
    assert_eq!(outline(&many), Outline { title: None, html: expected, flattened: true });
}

/// The depth of well-formed markup, or nothing if it is not.
fn depth(html: &str) -> Option<usize> {
    let (mut open, mut deepest) = (Vec::new(), 0);
    for tag in html.split('<').skip(1) {
        let name = tag.split(['>', ' ']).next()?;
        match name.strip_prefix('/') {
            Some(name) => (open.pop()? == name).then_some(())?,
            None if matches!(name, "br" | "hr") => {}
            None => open.push(name),
        }
        deepest = deepest.max(open.len());
    }
    open.is_empty().then_some(deepest)
}

proptest! {
    /// The outline of any page is balanced and shallow.
    #[test]
    fn every_outline_is_well_formed(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "<div>", "</div>", "<p>", "</p>", "<b>", "</b>", "<i>", "</i>", "<ul>", "</ul>", "<li>", "</li>",
                "<table>", "</table>", "<tr>", "<td>", "</td>", "</tr>", "<h1>", "</h1>", "<blockquote>",
                "</blockquote>", "<a href=x>", "</a>", "<svg>", "</svg>", "<br>", "x", "<", "&amp;", "<pre>", "</pre>",
            ]),
            0..300,
        )
    ) {
        let html = html(&pieces.concat());
        prop_assert!(depth(&html).is_some_and(|depth| depth <= MAX_DEPTH), "{html}");
    }
}
