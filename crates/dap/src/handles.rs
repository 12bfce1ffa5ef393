//! Numbers of the client for frames and for variables with parts, valid until the recording goes
//! on. A number is never used twice, so that an old one is noticed.

/// The objects behind the numbers, and the count of numbers given.
#[derive(Debug)]
pub struct Handles<T> {
    /// The number of the first one.
    base: i64,
    all: Vec<T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        // 0 means "no parts" where it stands for variables.
        Self {
            base: 1,
            all: Vec::new(),
        }
    }
}

impl<T> Handles<T> {
    /// A new number.
    pub fn add(&mut self, one: T) -> i64 {
        self.all.push(one);
        self.base + self.all.len() as i64 - 1
    }

    /// The object behind a number.
    pub fn get(&self, number: i64) -> Option<&T> {
        let at = number.checked_sub(self.base)?;
        self.all.get(usize::try_from(at).ok()?)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.base += self.all.len() as i64;
        self.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_numbers_are_noticed() {
        let mut handles = Handles::default();
        let old = handles.add('a');
        assert_eq!(handles.get(old), Some(&'a'));
        assert_eq!(handles.get(0), None);
        handles.clear();
        let new = handles.add('b');
        assert_eq!((handles.get(old), handles.get(new)), (None, Some(&'b')));
        for wrong in [i64::MIN, i64::MAX, -1, new + 1] {
            assert_eq!(handles.get(wrong), None);
        }
    }
}
