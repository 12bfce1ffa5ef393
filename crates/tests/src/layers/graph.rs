//! Files and the names that they take from each other; circles, and the edges that make them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Edges lead from the file that takes names to the one that has them.
#[derive(Debug, Default)]
pub struct Graph {
    edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

/// A circle of files, in the order that has the fewest edges against it, as far as a greedy search
/// finds that.
struct Circle<'g> {
    order: Vec<&'g str>,
    /// Against the order: from, to.
    back: Vec<(&'g str, &'g str)>,
}

/// The advice to a reader of the failure.
const REMEDY: &str = "\
    To mend it, move what a file takes against the order into a file below both (shared types into one \
    that takes nothing), or the impl block that needs it into a file above the type, or hand the \
    function down as an argument.";

impl Graph {
    /// A file, whether it takes anything or not.
    pub fn add_file(&mut self, file: &str) {
        self.edges.entry(file.to_owned()).or_default();
    }

    /// A file takes a name from another one.
    pub fn add(&mut self, from: &str, to: &str, name: &str) {
        self.add_file(to);
        let names = self.edges.entry(from.to_owned()).or_default();
        let names = names.entry(to.to_owned()).or_default();
        names.insert(name.to_owned());
    }

    /// The number of files in the largest circle (1: there is none), and the number of edges
    /// against the order in all of them.
    #[must_use]
    pub fn measure(&self) -> (usize, usize) {
        let circles = self.circles();
        let largest = circles.iter().map(|circle| circle.order.len()).max();
        let back = circles.iter().map(|circle| circle.back.len()).sum();
        (largest.unwrap_or(1), back)
    }

    /// Checks that no circle has more files than `largest`, and that no more edges than `back` lie
    /// against the order.
    ///
    /// # Errors
    /// The circles, with the names that are taken against the order, and the remedy.
    pub fn check(&self, largest: usize, back: usize) -> Result<(), String> {
        let measured = self.measure();
        if measured.0 <= largest && measured.1 <= back {
            return Ok(());
        }
        let mut text = format!(
            "the largest circle of files has {} (at most {largest}), and {} edges lie against the order (at most {back})\n",
            measured.0, measured.1
        );
        for circle in self.circles() {
            let _ = writeln!(
                text,
                "a circle of {}: {}",
                circle.order.len(),
                circle.order.join(" → ")
            );
            for (from, to) in circle.back {
                let names: Vec<&str> = self.edges[from][to].iter().map(String::as_str).collect();
                let _ = writeln!(
                    text,
                    "  against the order: {from} takes {} from {to}",
                    names.join(", ")
                );
            }
        }
        text.push_str(REMEDY);
        Err(text)
    }

    fn targets(&self, from: &str) -> impl Iterator<Item = &str> {
        let targets = self.edges.get(from).into_iter().flat_map(BTreeMap::keys);
        targets.map(String::as_str).filter(move |to| *to != from)
    }

    /// All circles, the largest first.
    fn circles(&self) -> Vec<Circle<'_>> {
        let mut search = Search {
            graph: self,
            numbers: BTreeMap::new(),
            path: Vec::new(),
            done: BTreeSet::new(),
            found: Vec::new(),
        };
        for file in self.edges.keys() {
            if !search.numbers.contains_key(file.as_str()) {
                search.visit(file);
            }
        }
        let found = search.found.into_iter().filter(|files| files.len() > 1);
        let mut circles: Vec<_> = found.map(|files| self.circle(files)).collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.order.len()));
        circles
    }

    /// Orders the files of a circle (Eades, Lin and Smyth, "A fast and effective heuristic for the
    /// feedback arc set problem", 1993). Ties are decided by name.
    fn circle<'g>(&'g self, files: BTreeSet<&'g str>) -> Circle<'g> {
        let out = |file: &str, rest: &BTreeSet<&str>| {
            let inside = self.targets(file).filter(|to| rest.contains(to));
            inside.count()
        };
        let into = |file: &str, rest: &BTreeSet<&str>| {
            let from = rest.iter().filter(|from| **from != file);
            from.filter(|from| self.edges[**from].contains_key(file))
                .count()
        };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        let mut rest = files.clone();
        while !rest.is_empty() {
            let sink = rest.iter().find(|file| out(file, &rest) == 0).copied();
            let source = rest.iter().find(|file| into(file, &rest) == 0).copied();
            let deficit = |file: &&&str| into(file, &rest) as i64 - out(file, &rest) as i64;
            let next = match (sink, source) {
                (Some(sink), _) => {
                    last.push(sink);
                    sink
                }
                (None, source) => {
                    let most = rest.iter().min_by_key(deficit).copied();
                    let next = source.or(most).unwrap_or_default();
                    first.push(next);
                    next
                }
            };
            rest.remove(next);
        }
        first.extend(last.into_iter().rev());
        let place = |file: &str| first.iter().position(|other| *other == file);
        let edges = files
            .iter()
            .flat_map(|from| self.targets(from).map(move |to| (*from, to)));
        let inside = edges.filter(|(_, to)| files.contains(to));
        let back = inside
            .filter(|(from, to)| place(to) < place(from))
            .collect();
        Circle { order: first, back }
    }
}

/// Tarjan's search for strongly connected parts.
struct Search<'g> {
    graph: &'g Graph,
    /// The order in which files were found.
    numbers: BTreeMap<&'g str, usize>,
    path: Vec<&'g str>,
    done: BTreeSet<&'g str>,
    found: Vec<BTreeSet<&'g str>>,
}

impl<'g> Search<'g> {
    /// Returns the least number that the file leads to.
    fn visit(&mut self, file: &'g str) -> usize {
        let number = self.numbers.len();
        self.numbers.insert(file, number);
        self.path.push(file);
        let mut least = number;
        for to in self.graph.targets(file) {
            least = least.min(match self.numbers.get(to) {
                None => self.visit(to),
                Some(_) if self.done.contains(to) => least,
                Some(number) => *number,
            });
        }
        if least == number {
            let at = self.path.iter().position(|other| *other == file);
            let part: BTreeSet<_> = self.path.split_off(at.unwrap_or(0)).into_iter().collect();
            self.done.extend(&part);
            self.found.push(part);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (from, to) in edges {
            graph.add(from, to, &format!("of_{to}"));
        }
        graph
    }

    #[test]
    fn an_order_has_no_circle() {
        let graph = graph(&[("a", "b"), ("b", "c"), ("a", "c"), ("a", "a")]);
        assert_eq!(graph.measure(), (1, 0));
        assert_eq!(graph.check(1, 0), Ok(()));
    }

    #[test]
    fn circles_are_found_with_the_edges_that_make_them() {
        let graph = graph(&[
            ("a", "b"),
            ("b", "c"),
            ("c", "a"),
            ("a", "c"),
            ("d", "a"),
            ("x", "y"),
            ("y", "x"),
        ]);
        assert_eq!(graph.measure(), (3, 2));
        assert_eq!(graph.check(3, 2), Ok(()));
        assert!(graph.check(2, 2).is_err() && graph.check(3, 1).is_err());
        let text = graph.check(1, 0).expect_err("two circles");
        assert!(text.contains("a circle of 3: a → b → c"), "{text}");
        assert!(text.contains("c takes of_a from a"), "{text}");
        assert!(!text.contains("from d"), "{text}");
    }
}
