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
