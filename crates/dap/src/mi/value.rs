//! What a record carries.

use std::str::FromStr;

/// A value of the machine interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text; bytes that are no UTF-8 are replaced.
    Text(String),
    /// Values with names, of which several may have the same.
    Tuple(Vec<(String, Value)>),
    /// Values; where gdb gives each a name (`stack=[frame={},frame={}]`) the name is dropped.
    List(Vec<Value>),
}

impl Value {
    /// A tuple's first value of a name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Tuple(fields) => fields.iter().find(|f| f.0 == name).map(|f| &f.1),
            _ => None,
        }
    }

    /// A tuple's text of a name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A tuple's decimal number of a name.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// A tuple's list of a name; none is empty.
    pub fn list(&self, name: &str) -> &[Self] {
        match self.get(name) {
            Some(Self::List(all)) => all,
            _ => &[],
        }
    }
}
