//! Kinds of single characters: those that are invisible where they stand, and those that look like Latin letters.

/// The visibility of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is seen.
    Seen,
    /// It takes no place, or controls a terminal.
    Invisible,
    /// It turns the direction of the text after it around.
    Turning,
}

/// The visibility of a character between two others.
pub(super) fn kind(before: Option<char>, c: char, after: Option<char>) -> Kind {
    match c {
        '\n' | '\t' => Kind::Seen,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Kind::Turning
        }
        _ if c.is_control() => Kind::Invisible,
        // Joiners and selectors have honest uses: within emoji, and between letters that change their shape.
        '\u{200c}' | '\u{200d}' if joins(before, after) => Kind::Seen,
        '\u{fe0e}' | '\u{fe0f}' if before.is_some_and(is_symbol) => Kind::Seen,
        '\u{e0100}'..='\u{e01ef}' if before.is_some_and(is_ideograph) => Kind::Seen,
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' => Kind::Invisible,
        '\u{200b}'..='\u{200d}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}' => Kind::Invisible,
        '\u{2800}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' => Kind::Invisible,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => {
            Kind::Invisible
        }
        _ => Kind::Seen,
    }
}

/// The letter that a tag character spells.
pub(super) fn tag(c: char) -> Option<char> {
    match c {
        '\u{e0020}'..='\u{e007e}' => char::from_u32(u32::from(c) - 0xe0000),
        _ => None,
    }
}

fn joins(before: Option<char>, after: Option<char>) -> bool {
    let shaped = |c: char| matches!(c, '\u{600}'..='\u{10ff}' | '\u{1780}'..='\u{18af}');
    match (before, after) {
        (Some(before), Some(after)) => {
            (shaped(before) && shaped(after)) || (is_symbol(before) && is_symbol(after))
        }
        _ => false,
    }
}

/// Emoji and their parts, but no selector after a selector: a row of those is a hidden text.
fn is_symbol(c: char) -> bool {
    matches!(c, '#' | '*' | '0'..='9' | '\u{a9}' | '\u{ae}' | '\u{203c}'..='\u{27ff}' | '\u{2900}'..='\u{33ff}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}')
        && !matches!(c, '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Letters that look like Latin ones, each before its twin: Cyrillic, Greek, Armenian, Cherokee, phonetic.
const TWINS: &str = "\
    аa еe оo рp сc уy хx іi јj ѕs ԁd ԛq ԝw һh ӏl кk ɡg ɑa АA ВB ЕE КK МM НH ОO РP СC ТT УY ХX ІI ЈJ ЅS ԚQ ԜW ӀI \
    οo νv αa ρp ιi κk υu ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX ϲc ϳj \
    օo սu հh ոn ցg քp ՏS ԼL ՕO ՍU ᎪA ᏴB ᏟC ᎬE ᏀG ᎻH ᎫJ ᏦK ᏞL ᎷM ᏢP ᏚS ᎢT ᏙV ᏔW ᏃZ";

/// The Latin letter or ASCII sign that a character looks like.
pub(super) fn twin(c: char) -> Option<char> {
    match c {
        '\0'..='\u{7f}' => None,
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{1d400}'..='\u{1d6a3}' => {
            let place = (u32::from(c) - 0x1d400) % 52;
            char::from_u32(if place < 26 { u32::from('A') + place } else { u32::from('a') + place - 26 })
        }
        _ => TWINS.split(' ').find_map(|pair| {
            let mut pair = pair.chars();
            (pair.next() == Some(c)).then(|| pair.next()).flatten()
        }),
    }
}
