//! Values in a record.

use std::str::FromStr;

/// A value of the machine interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Text; bytes that are not UTF-8 are replaced.
    Text(String),
    /// Named values; several may have the same name.
    Tuple(Vec<(String, Value)>),
    /// Values; where gdb gives each a name (`stack=[frame={},frame={}]`) the name is dropped.
    List(Vec<Value>),
}

impl Value {
    /// A tuple's first value of this name.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Tuple(fields) => fields.iter().find(|f| f.0 == name).map(|f| &f.1),
            _ => None,
        }
    }

    /// A tuple's text of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Self::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A tuple's decimal number of this name.
    pub fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// A tuple's list of this name; empty if there is none.
    pub fn list(&self, name: &str) -> &[Self] {
        match self.get(name) {
            Some(Self::List(all)) => all,
            _ => &[],
        }
    }
}
