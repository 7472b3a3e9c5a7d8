//! How the certificate of a server is checked, and what can be done when it is refused.

use std::error::Error as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The values of `sslmode`, and what the client has to do. Where there is TLS, the certificate and the name of the
/// host are checked in any case.
const MODES: [(&str, &str); 5] = [
    ("disable", "disable"),
    ("prefer", "prefer"),
    ("require", "require"),
    ("verify-ca", "require"),
    ("verify-full", "require"),
];
const DAY_S: u64 = 24 * 60 * 60;

/// Returns what the client has to do for a value of `sslmode`.
pub(super) fn mode(value: &str) -> Result<&'static str, String> {
    let known = MODES.iter().find(|(name, _)| *name == value);
    known.map(|(_, mode)| *mode).ok_or_else(|| {
        format!("invalid sslmode {value:?}: use disable, prefer, require or verify-full")
    })
}

/// Returns what checks the certificate of a server: against those in `file`, else against those that this system
/// trusts.
pub(super) fn connector(file: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let roots = match file {
        Some(file) => roots_in(file)
            .map_err(|why| format!("cannot use the certificates in {}: {why}", file.display()))?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn roots_in(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())? {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("it has none in the PEM format".to_owned()),
        false => Ok(roots),
    }
}

/// Returns why a server was refused, and what can be done, if that was for its certificate.
pub(super) fn advice(error: &tokio_postgres::Error) -> Option<String> {
    let cause = error.source()?;
    if cause.to_string() == "server does not support TLS" {
        let why = "the server has no TLS, and sslmode insists on it; turn on ssl at the server";
        return Some(why.to_owned());
    }
    let cause = cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()?;
    let rustls::Error::InvalidCertificate(cause) = cause else { return None };
    Some(match cause {
        CertificateError::UnknownIssuer => {
            "the certificate of the server is of an authority that is not trusted here; name the file with the certificate of that authority in the URL, as ?sslrootcert=FILE, or in PGSSLROOTCERT".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (expected, names) = (expected.to_str(), presented.join(", "));
            format!(
                "the certificate of the server is not for {expected}, but for {names}; connect to a name that it has, or give the server a certificate for {expected}"
            )
        }
        CertificateError::ExpiredContext { time, not_after } => {
            let days = time.as_secs().saturating_sub(not_after.as_secs()) / DAY_S;
            let ago = match days {
                0 => "today".to_owned(),
                1 => "a day ago".to_owned(),
                days => format!("{days} days ago"),
            };
            format!("the certificate of the server has expired, {ago}; renew it at the server")
        }
        CertificateError::NotValidYetContext { .. } => {
            "the certificate of the server is not valid yet; compare the clock of this machine with that of the server".to_owned()
        }
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate of the server is one of an authority; give the server a certificate of its own that the authority has issued".to_owned()
        }
        other => format!("the certificate of the server is refused: {other}"),
    })
}
