//! Folds and error annotations of CI services.

use super::board::Kind;

/// The CI service that shows the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    None,
    GitHub,
    GitLab,
}

/// Output that a service can fold.
pub(crate) struct Fold<'a> {
    /// The line that is visible when it is folded.
    pub(crate) title: &'a str,
    /// Its name, unique in the output; letters, digits and underscores.
    pub(crate) name: String,
    /// What happened to the step.
    pub(crate) kind: Kind,
    /// Seconds since 1970.
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

impl Service {
    /// Returns the service that the environment variables name.
    pub(crate) fn detect(read: impl Fn(&str) -> Option<String>) -> Self {
        let on = |name: &str| read(name).is_some_and(|value| value == "true");
        if on("GITHUB_ACTIONS") {
            Service::GitHub
        } else if on("GITLAB_CI") {
            Service::GitLab
        } else {
            Service::None
        }
    }

    /// Returns what to print before a fold.
    pub(crate) fn open(self, fold: &Fold<'_>) -> String {
        let Fold { title, name, kind, began, .. } = fold;
        match self {
            Service::None => String::new(),
            Service::GitHub => format!("::group::{}\n", data(title)),
            Service::GitLab => {
                // Failures are not folded.
                let folded = if *kind == Kind::Failed { "" } else { "[collapsed=true]" };
                format!("\x1b[0Ksection_start:{began}:{name}{folded}\r\x1b[0K{title}\n")
            }
        }
    }

    /// Returns what to print after a fold.
    pub(crate) fn close(self, fold: &Fold<'_>) -> String {
        match self {
            Service::None => String::new(),
            Service::GitHub => "::endgroup::\n".to_owned(),
            Service::GitLab => {
                format!("\x1b[0Ksection_end:{}:{}\r\x1b[0K\n", fold.ended, fold.name)
            }
        }
    }

    /// Returns an error annotation; empty if the service has none.
    pub(crate) fn error(self, title: &str, message: &str) -> String {
        match self {
            Service::GitHub => format!("::error title={}::{}\n", property(title), data(message)),
            Service::None | Service::GitLab => String::new(),
        }
    }
}

/// Escapes the message of a GitHub command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a GitHub command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(kind: Kind) -> Fold<'static> {
        let (title, name) = ("build: 100%", "windlass_1_1".to_owned());
        Fold { title, name, kind, began: 10, ended: 12 }
    }

    #[test]
    fn each_service_folds_in_its_own_way() {
        let check = |service: Service, kind: Kind, open: &str, close: &str| {
            let fold = fold(kind);
            assert_eq!(
                (service.open(&fold).as_str(), service.close(&fold).as_str()),
                (open, close)
            );
        };
        check(Service::None, Kind::Failed, "", "");
        check(Service::GitHub, Kind::Failed, "::group::build: 100%25\n", "::endgroup::\n");
        let close = "\x1b[0Ksection_end:12:windlass_1_1\r\x1b[0K\n";
        let open = "\x1b[0Ksection_start:10:windlass_1_1\r\x1b[0Kbuild: 100%\n";
        check(Service::GitLab, Kind::Failed, open, close);
        let open = "\x1b[0Ksection_start:10:windlass_1_1[collapsed=true]\r\x1b[0Kbuild: 100%\n";
        check(Service::GitLab, Kind::Succeeded, open, close);
    }

    #[test]
    fn a_name_cannot_break_out_of_an_annotation() {
        let error = Service::GitHub.error("a,b::c\n::error::x", "line\r\n100%");
        assert_eq!(error, "::error title=a%2Cb%3A%3Ac%0A%3A%3Aerror%3A%3Ax::line%0D%0A100%25\n");
        assert_eq!(Service::GitLab.error("a", "b"), "");
    }

    #[test]
    fn a_service_is_known_by_its_variable() {
        let check = |name: &'static str, value: &'static str, service: Service| {
            let read = move |asked: &str| (asked == name).then(|| value.to_owned());
            assert_eq!(Service::detect(read), service);
        };
        check("GITHUB_ACTIONS", "true", Service::GitHub);
        check("GITLAB_CI", "true", Service::GitLab);
        check("GITHUB_ACTIONS", "false", Service::None);
        check("CI", "true", Service::None);
    }
}
