//! Other names of a model: as they stand, or with `*` for any text.

/// Whether a name is one that the alias stands for. A `*` stands for any text, none included.
pub fn alias_matches(alias: &str, name: &str) -> bool {
    let Some((beginning, rest)) = alias.split_once('*') else {
        return alias == name;
    };
    let Some(mut name) = name.strip_prefix(beginning) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    // The first place is the best one for each part: it leaves the most to those behind it.
    for part in middle.split('*') {
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    name.ends_with(end)
}

/// Whether the alias stands for many names, so that it is none itself.
pub fn is_glob(alias: &str) -> bool {
    alias.contains('*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_wherever_it_is() {
        for (alias, name, matches) in [
            ("gpt", "gpt", true),
            ("gpt", "gpt4", false),
            ("claude-*", "claude-", true),
            ("claude-*", "claude-sonnet-5", true),
            ("claude-*", "my-claude-1", false),
            ("*", "", true),
            ("*-mini", "gpt-5-mini", true),
            ("*-mini", "gpt-5-mini-2", false),
            ("*sonnet*", "claude-sonnet-5", true),
            ("*sonnet*", "claude-opus-5", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "ac", false),
            ("a*a", "a", false),
            ("ab*ab*ab", "abab", false),
            ("**", "x", true),
            ("é*é", "éxé", true),
        ] {
            assert_eq!(alias_matches(alias, name), matches, "{alias} and {name}");
        }
    }
}
