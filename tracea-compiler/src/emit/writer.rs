//! Lines of C++ with indentation and `#line` directives.

#[derive(Default)]
pub struct Writer {
    text: String,
    depth: usize,
    pending: Option<(u32, String)>,
    last: Option<u32>,
}

impl Writer {
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if let Some((number, file)) = self.pending.take()
            && self.last != Some(number)
        {
            self.text.push_str(&format!("#line {number} \"{}\"\n", file.replace('\\', "/")));
            self.last = Some(number);
        }
        if !line.starts_with('#') || line.starts_with("#pragma") {
            self.text.push_str(&"    ".repeat(self.depth));
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    pub fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// What follows stands on this line of the user's source.
    pub fn source_line(&mut self, line: u32, file: &str) {
        if line > 0 {
            self.pending = Some((line, file.to_string()));
        }
    }

    pub fn indent(&mut self) {
        self.depth += 1;
    }

    pub fn dedent(&mut self) {
        self.depth -= 1;
    }

    /// A comma-separated list over as many lines as it takes.
    pub fn wrapped(&mut self, items: &[String], end: &str) {
        const WIDTH: usize = 116;
        let mut current = String::new();
        for (at, item) in items.iter().enumerate() {
            let last = at + 1 == items.len();
            let piece = if last { format!("{item}{end}") } else { format!("{item}, ") };
            if !current.is_empty() && current.len() + piece.len() + 4 * self.depth > WIDTH {
                self.line(current.trim_end());
                current.clear();
            }
            current.push_str(&piece);
        }
        if items.is_empty() {
            current.push_str(end);
        }
        self.line(current);
    }

    /// A place to come back to.
    pub fn mark(&self) -> usize {
        self.text.len()
    }

    /// Removes `constexpr` lines after the mark whose name nothing else mentions.
    pub fn drop_unused_constants(&mut self, mark: usize) {
        let tail = self.text.split_off(mark);
        for line in tail.split_inclusive('\n') {
            let name = line.strip_prefix("constexpr int ").and_then(|rest| rest.split(' ').next());
            let used = name.is_none_or(|name| occurrences(&tail, name) > 1);
            if used {
                self.text.push_str(line);
            }
        }
    }

    pub fn finish(self) -> String {
        self.text
    }
}

/// Whole-word occurrences.
fn occurrences(text: &str, word: &str) -> usize {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .filter(|(at, _)| {
            !text[..*at].chars().next_back().is_some_and(part_of_word)
                && !text[at + word.len()..].chars().next().is_some_and(part_of_word)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::Writer;

    #[test]
    fn lines_are_indented_and_directives_are_not() {
        let mut out = Writer::default();
        out.line("{");
        out.indent();
        out.source_line(7, "a\\b.rs");
        out.line("x;");
        out.line("#pragma unroll");
        out.dedent();
        out.line("}");
        assert_eq!(out.finish(), "{\n#line 7 \"a/b.rs\"\n    x;\n    #pragma unroll\n}\n");
    }

    #[test]
    fn a_source_line_is_named_once() {
        let mut out = Writer::default();
        for _ in 0..2 {
            out.source_line(3, "k.rs");
            out.line("x;");
        }
        assert_eq!(out.finish(), "#line 3 \"k.rs\"\nx;\nx;\n");
    }

    #[test]
    fn long_lists_wrap() {
        let mut out = Writer::default();
        let items: Vec<String> = (0..30).map(|n| format!("int value_{n}")).collect();
        out.wrapped(&items, ") {");
        let text = out.finish();
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.len() <= 116), "{text}");
        assert!(text.ends_with("value_29) {\n"));
        let mut none = Writer::default();
        none.wrapped(&[], ") {");
        assert_eq!(none.finish(), ") {\n");
    }

    #[test]
    fn constants_that_nothing_mentions_go() {
        let mut out = Writer::default();
        let mark = out.mark();
        out.line("constexpr int BLOCK = 8;");
        out.line("constexpr int BLOCK_I = 8;");
        out.line("int x = BLOCK_I;");
        out.drop_unused_constants(mark);
        assert_eq!(out.finish(), "constexpr int BLOCK_I = 8;\nint x = BLOCK_I;\n");
    }
}
