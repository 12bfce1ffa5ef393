//! The capabilities that the client is told.

use serde_json::{Value, json};

/// Filters of exceptions: the client's name, the text for the user, whether it is on by default.
pub const FILTERS: [(&str, &str, bool); 3] = [
    ("signals", "Signals", true),
    ("throw", "C++: thrown exceptions", false),
    ("catch", "C++: caught exceptions", false),
];

/// The answer to `initialize`.
pub fn capabilities() -> Value {
    const SUPPORTED: [&str; 18] = [
        "supportsConfigurationDoneRequest",
        "supportsStepBack",
        "supportsSteppingGranularity",
        "supportsConditionalBreakpoints",
        "supportsHitConditionalBreakpoints",
        "supportsFunctionBreakpoints",
        "supportsInstructionBreakpoints",
        "supportsDataBreakpoints",
        "supportsDataBreakpointBytes",
        "supportsEvaluateForHovers",
        "supportsClipboardContext",
        "supportsReadMemoryRequest",
        "supportsDisassembleRequest",
        "supportsExceptionInfoRequest",
        "supportsDelayedStackTraceLoading",
        "supportsRestartRequest",
        "supportsTerminateRequest",
        "supportTerminateDebuggee",
    ];
    let mut all: serde_json::Map<String, Value> = SUPPORTED
        .iter()
        .map(|name| ((*name).to_owned(), Value::Bool(true)))
        .collect();
    let filters = FILTERS
        .iter()
        .map(|(filter, label, on)| json!({ "filter": filter, "label": label, "default": on }));
    all.insert(
        "exceptionBreakpointFilters".to_owned(),
        filters.collect::<Vec<_>>().into(),
    );
    all.into()
}
