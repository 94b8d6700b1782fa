//! A wrong value on the command line, whichever command it was given to.

/// An option or argument that cannot be. The user's fault; no retry helps.
#[derive(Debug, thiserror::Error)]
#[error("{option} \"{value}\": {mend}")]
pub struct OptionError {
    /// The option.
    option: &'static str,
    /// What was given.
    value: String,
    /// What is possible.
    mend: String,
}

impl OptionError {
    pub(crate) fn new(
        option: &'static str,
        value: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            option,
            value: value.into(),
            mend: mend.into(),
        }
    }
}
