//! The tests do as `docs/editors.md` and the extension for VS Code say: launch configurations are
//! read out of the page, the adapter's command line out of the extension.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::crate_dir;

/// Beginning of a block of code with launch configurations.
const BLOCK: &str = "```json\n";
/// The text that VS Code replaces by its folder.
const FOLDER: &str = "${workspaceFolder}";

/// The launch configurations of the page, and the extension.
#[derive(Debug)]
pub struct Configurations {
    all: Vec<Value>,
    debugger: Value,
}

impl Configurations {
    /// As they are documented, in a workspace.
    ///
    /// # Errors
    /// The page or the extension cannot be read.
    pub fn documented(workspace: &Path) -> Result<Self, String> {
        let root = crate_dir().join("../..");
        let read = |path: &str| {
            let text = fs::read_to_string(root.join(path));
            text.map_err(|e| format!("{path}: {e}"))
        };
        let page = read("docs/editors.md")?;
        let extension = read("editors/vscode/package.json")?;
        Self::of(&page, &extension, &workspace.display().to_string())
    }

    fn of(page: &str, extension: &str, workspace: &str) -> Result<Self, String> {
        let parse = |text: &str| -> Result<Value, String> {
            serde_json::from_str(text).map_err(|e| format!("{text}: {e}"))
        };
        let mut all = Vec::new();
        for block in page.split(BLOCK).skip(1) {
            let text = block.split("```").next().unwrap_or("");
            let mut launch = parse(&text.replace(FOLDER, workspace))?;
            if let Value::Array(found) = launch["configurations"].take() {
                all.extend(found);
            }
        }
        let debugger = parse(extension)?["contributes"]["debuggers"][0].take();
        let configurations = Self { all, debugger };
        configurations.check()?;
        Ok(configurations)
    }

    /// The extension knows all attributes that the page uses.
    fn check(&self) -> Result<(), String> {
        for configuration in &self.all {
            let request = configuration["request"].as_str().unwrap_or("");
            let known = &self.debugger["configurationAttributes"][request]["properties"];
            let fields = configuration.as_object().into_iter().flatten();
            for (name, _) in fields {
                let always = ["type", "request", "name"].contains(&name.as_str());
                if !always && known[name].is_null() {
                    return Err(format!("the extension does not know '{name}'"));
                }
            }
            if configuration["type"] != self.debugger["type"] {
                return Err(format!("{configuration} is of another type"));
            }
        }
        Ok(())
    }

    /// The arguments with which the extension starts the adapter.
    pub fn arguments(&self) -> Vec<String> {
        let all = self.debugger["args"].as_array().into_iter().flatten();
        all.filter_map(|a| a.as_str().map(str::to_owned)).collect()
    }

    /// A configuration of the page.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn named(&self, name: &str) -> Result<Value, String> {
        let found = self.all.iter().find(|c| c["name"] == name);
        found
            .cloned()
            .ok_or_else(|| format!("docs/editors.md has no configuration '{name}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_read_and_compared() {
        let page = "# A\n```json\n{ \"configurations\": [{ \"type\": \"t\", \"request\": \"launch\",\n\
                    \"name\": \"N\", \"trace\": \"${workspaceFolder}/x\" }] }\n```\n";
        let extension = r#"{ "contributes": { "debuggers": [{ "type": "t", "args": ["dap"],
            "configurationAttributes": { "launch": { "properties": { "trace": {} } } } }] } }"#;
        let all = Configurations::of(page, extension, "/w").unwrap();
        assert_eq!(all.arguments(), ["dap"]);
        assert_eq!(all.named("N").unwrap()["trace"], "/w/x");
        assert!(all.named("M").is_err());
        for (from, to) in [("\"trace\"", "\"track\""), ("\"t\"", "\"u\"")] {
            assert!(Configurations::of(&page.replace(from, to), extension, "/w").is_err());
        }
    }
}
