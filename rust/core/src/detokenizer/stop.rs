use std::collections::VecDeque;
use std::sync::Arc;

use super::error::DetokenizerError;

const ROOT: u32 = 0;

#[derive(Clone, Debug, Default)]
struct Node {
    /// Where the text goes on, by its next byte.
    edges: Vec<(u8, u32)>,
    /// The node of the longest proper suffix that is a prefix of some stop string.
    fail: u32,
    /// Bytes from the root: how much of the text could still become a stop string.
    depth: u32,
    /// Length of the longest stop string that ends here; 0 if none does.
    matched: u32,
}

/// An Aho-Corasick automaton over the bytes of a request's stop strings.
#[derive(Debug)]
pub struct StopStrings {
    nodes: Vec<Node>,
    /// The root's edges, spelled out: nearly every byte of ordinary text is looked up here.
    first: [u32; 256],
}

impl StopStrings {
    /// An automaton for these stop strings.
    ///
    /// # Errors
    /// [`DetokenizerError::EmptyStop`], [`DetokenizerError::StopsTooLong`] over 4 GiB.
    pub fn new<T: AsRef<str>>(stops: &[T]) -> Result<Self, DetokenizerError> {
        let mut automaton = Self {
            nodes: vec![Node::default()],
            first: [ROOT; 256],
        };
        for stop in stops {
            automaton.insert(stop.as_ref().as_bytes())?;
        }
        for &(byte, node) in &automaton.nodes[0].edges {
            automaton.first[usize::from(byte)] = node;
        }
        automaton.link();
        Ok(automaton)
    }

    fn insert(&mut self, stop: &[u8]) -> Result<(), DetokenizerError> {
        if stop.is_empty() {
            return Err(DetokenizerError::EmptyStop);
        }
        let mut at = ROOT;
        for &byte in stop {
            at = match self.child(at, byte) {
                Some(node) => node,
                None => self.grow(at, byte)?,
            };
        }
        let node = self.node_mut(at);
        node.matched = node.depth;
        Ok(())
    }

    fn grow(&mut self, parent: u32, byte: u8) -> Result<u32, DetokenizerError> {
        let new = u32::try_from(self.nodes.len()).map_err(|_| DetokenizerError::StopsTooLong)?;
        let depth = self.node(parent).depth + 1;
        self.node_mut(parent).edges.push((byte, new));
        self.nodes.push(Node {
            depth,
            ..Node::default()
        });
        Ok(new)
    }

    /// Sets the suffix links, shortest prefixes first.
    fn link(&mut self) {
        let mut queue: VecDeque<u32> = self
            .node(ROOT)
            .edges
            .iter()
            .map(|&(_, node)| node)
            .collect();
        while let Some(at) = queue.pop_front() {
            let fail = self.node(at).fail;
            if self.node(at).matched == 0 {
                self.node_mut(at).matched = self.node(fail).matched;
            }
            for (byte, child) in self.node(at).edges.clone() {
                self.node_mut(child).fail = self.next(fail, byte);
                queue.push_back(child);
            }
        }
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    fn child(&self, at: u32, byte: u8) -> Option<u32> {
        let edges = &self.node(at).edges;
        edges
            .iter()
            .find(|(edge, _)| *edge == byte)
            .map(|&(_, node)| node)
    }

    /// Where one more byte of text leads.
    fn next(&self, mut at: u32, byte: u8) -> u32 {
        while at != ROOT {
            if let Some(node) = self.child(at, byte) {
                return node;
            }
            at = self.node(at).fail;
        }
        self.first[usize::from(byte)]
    }
}

/// One choice's text on its way through the automaton.
#[derive(Clone, Debug)]
pub(crate) struct StopMatcher {
    stops: Arc<StopStrings>,
    at: u32,
    /// The end of the text, as long as it could begin a stop string.
    held: String,
    stopped: bool,
}

impl StopMatcher {
    pub(crate) const fn new(stops: Arc<StopStrings>) -> Self {
        Self {
            stops,
            at: ROOT,
            held: String::new(),
            stopped: false,
        }
    }

    pub(crate) const fn stopped(&self) -> bool {
        self.stopped
    }

    /// Appends what can no longer be part of a stop string; at the stop string that completes
    /// first (of several ending together the longest) everything from its start on is dropped.
    ///
    /// Both cuts fall between characters: a stop string begins with a character's first byte.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) {
        if self.stopped {
            return;
        }
        let start = self.held.len();
        self.held.push_str(text);
        for (index, byte) in text.bytes().enumerate() {
            self.at = self.stops.next(self.at, byte);
            let matched = self.stops.node(self.at).matched as usize;
            if matched != 0 {
                self.release(start + index + 1 - matched, out);
                self.held.clear();
                self.stopped = true;
                return;
            }
        }
        let live = self.stops.node(self.at).depth as usize;
        self.release(self.held.len() - live, out);
    }

    /// Ends the text: what was held was no stop string.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.release(self.held.len(), out);
        self.at = ROOT;
    }

    fn release(&mut self, bytes: usize, out: &mut String) {
        out.push_str(&self.held[..bytes]);
        self.held.drain(..bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(Arc::new(StopStrings::new(stops).unwrap()))
    }

    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let mut matcher = matcher(stops);
        let mut shown: Vec<String> = Vec::new();
        for piece in pieces {
            let mut out = String::new();
            matcher.push(piece, &mut out);
            shown.push(out);
        }
        let mut out = String::new();
        matcher.finish(&mut out);
        shown.push(out);
        (shown, matcher.stopped())
    }

    #[test]
    fn ordinary_text_is_not_delayed() {
        let (shown, stopped) = run(&["\n\nUser:"], &["Hello", " world", "."]);
        assert_eq!(shown, ["Hello", " world", ".", ""]);
        assert!(!stopped);
    }

    #[test]
    fn only_the_longest_live_prefix_is_held() {
        let (shown, _) = run(&["abcabd"], &["xxabc", "abc", "q"]);
        assert_eq!(shown, ["xx", "abc", "abcq", ""]);
    }

    #[test]
    fn a_stop_split_over_pieces_is_never_shown() {
        let (shown, stopped) = run(&["STOP"], &["go S", "TO", "P more", "and more"]);
        assert_eq!(shown.concat(), "go ");
        assert!(stopped);
    }

    #[test]
    fn the_match_that_completes_first_wins_inside_a_longer_live_prefix() {
        assert_eq!(run(&["abcd", "bc"], &["abcd"]).0.concat(), "a");
        assert_eq!(run(&["abc", "bc"], &["xabc"]).0.concat(), "x");
    }

    #[test]
    fn an_unfinished_prefix_is_shown_at_the_end() {
        let (shown, stopped) = run(&["STOP"], &["ST"]);
        assert_eq!(shown, ["", "ST"]);
        assert!(!stopped);
    }

    #[test]
    fn a_stop_sharing_bytes_with_another_character_cuts_between_characters() {
        assert_eq!(run(&["éa"], &["è", "é", "b"]).0, ["è", "", "éb", ""]);
        assert_eq!(run(&["🦀"], &["🦁🦀🦁"]).0.concat(), "🦁");
    }

    #[test]
    fn an_empty_stop_is_refused() {
        assert!(matches!(
            StopStrings::new(&["a", ""]),
            Err(DetokenizerError::EmptyStop)
        ));
    }

    /// By definition: the first end of any stop, of those the earliest start.
    fn expected(stops: &[String], text: &str) -> Option<usize> {
        (0..=text.len()).find_map(|end| {
            let ending = stops
                .iter()
                .filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
            ending.map(|stop| end - stop.len()).min()
        })
    }

    proptest! {
        #[test]
        fn any_split_stops_where_the_definition_says(
            stops in prop::collection::vec("[abé漢]{1,5}", 1..5),
            pieces in prop::collection::vec("[abcé漢è]{0,6}", 0..12),
        ) {
            let text = pieces.concat();
            let pieces: Vec<_> = pieces.iter().map(String::as_str).collect();
            let names: Vec<_> = stops.iter().map(String::as_str).collect();
            let (shown, stopped) = run(&names, &pieces);
            let cut = expected(&stops, &text);
            prop_assert_eq!(stopped, cut.is_some());
            prop_assert_eq!(shown.concat(), &text[..cut.unwrap_or(text.len())]);
        }

        #[test]
        fn what_is_held_is_the_longest_suffix_that_begins_a_stop(
            stops in prop::collection::vec("[abé漢]{1,5}", 1..5),
            text in "[abcé漢è]{0,20}",
        ) {
            prop_assume!(expected(&stops, &text).is_none());
            let mut out = String::new();
            let names: Vec<_> = stops.iter().map(String::as_str).collect();
            matcher(&names).push(&text, &mut out);
            let live = (0..=text.len()).filter(|&start| text.is_char_boundary(start))
                .map(|start| &text[start..])
                .find(|end| stops.iter().any(|stop| stop.starts_with(end)))
                .unwrap_or("");
            prop_assert_eq!(&text[out.len()..], live);
        }
    }
}
