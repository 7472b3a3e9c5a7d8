//! TLS to the server of a store: whom it trusts, and what it says when it does not.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use windlass_sim::postgres::Server;

use crate::bench::{Bench, stderr, stdout};

/// An authority that issues certificates.
struct Authority {
    certificate: String,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("plain");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("it signs").pem();
        Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for a host, and returns it with its key.
    fn issue(&self, host: &str, years: [i32; 2]) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![host.to_owned()]).expect("plain");
        let [from, until] = years.map(|year| date_time_ymd(year, 1, 1));
        (params.not_before, params.not_after) = (from, until);
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server that is reached over the network, and two authorities whose certificates are in files.
struct Stage {
    bench: Bench,
    server: Server,
    port: u16,
    ours: Authority,
}

impl Stage {
    fn new() -> Option<Self> {
        let (server, port) = Server::on_loopback()?;
        let (bench, ours) = (Bench::new(), Authority::new("ours"));
        bench.write("ours.pem", &ours.certificate);
        bench.write("theirs.pem", &Authority::new("theirs").certificate);
        bench.write("empty.pem", "no certificate\n");
        Some(Self { bench, server, port, ours })
    }

    fn serve(&self, (certificate, key): (String, String)) {
        self.server.set_certificate(Some((&certificate, &key)));
    }

    fn url(&self, options: &str) -> String {
        let dir = self.bench.path("").display().to_string();
        let options = options.replace("DIR/", &dir);
        format!("postgres://windlass@localhost:{}/postgres?schema=tls{options}", self.port)
    }

    fn call(&self, options: &str, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
        let dir = self.bench.path("").display().to_string();
        let mut command = self.bench.command(arguments);
        command.env("WINDLASS_STATE", self.url(options));
        command.env("XDG_STATE_HOME", self.bench.path("home"));
        command.env_remove("PGSSLMODE").env_remove("PGSSLROOTCERT");
        command.envs(variables.iter().map(|(name, value)| (name, value.replace("DIR/", &dir))));
        let output = command.output().expect("the binary runs");
        let said = format!("{}{}", stdout(&output), stderr(&output));
        (output.status.code().expect("it exits"), said)
    }

    #[track_caller]
    fn check(&self, options: &str, variables: &[(&str, &str)], code: i32, says: &str) {
        let (ended, said) = self.call(options, variables, &["store", "init"]);
        assert_eq!(ended, code, "{options}, {variables:?}: {said}");
        assert!(said.contains(says), "{options}, {variables:?}: {said}");
    }
}

const LOCAL: &str = ": logs of this machine are in ";
const VALID: [i32; 2] = [2020, 4000];
const UNTRUSTED: &str = "is of an authority that is not trusted here; name the file with the certificate of that authority in the URL, as ?sslrootcert=FILE, or in PGSSLROOTCERT";

#[test]
fn a_server_is_trusted_if_its_authority_is_and_its_name_is_right() {
    let Some(stage) = Stage::new() else { return };
    stage.serve(stage.ours.issue("localhost", VALID));
    for mode in ["verify-full", "verify-ca", "require", "prefer"] {
        let options = |file: &str| format!("&sslmode={mode}&sslrootcert=DIR/{file}");
        stage.check(&options("ours.pem"), &[], 0, LOCAL);
        stage.check(&options("theirs.pem"), &[], 69, UNTRUSTED);
        stage.check(&format!("&sslmode={mode}"), &[], 69, UNTRUSTED);
    }
    stage.check("&sslrootcert=DIR/ours.pem", &[], 0, LOCAL);
    stage.check("", &[], 69, UNTRUSTED);
    stage.check("&sslrootcert=system", &[("PGSSLROOTCERT", "DIR/ours.pem")], 69, UNTRUSTED);
    stage.check("", &[("PGSSLROOTCERT", "DIR/ours.pem")], 0, LOCAL);
    stage.check("", &[("PGSSLROOTCERT", "DIR/theirs.pem")], 69, UNTRUSTED);
    stage.check("&sslrootcert=DIR/ours.pem", &[("PGSSLROOTCERT", "DIR/theirs.pem")], 0, LOCAL);
    stage.check("&sslmode=disable", &[], 0, LOCAL);
    stage.check("", &[("PGSSLMODE", "disable")], 0, LOCAL);
    stage.check("&sslmode=require", &[("PGSSLMODE", "disable")], 69, UNTRUSTED);
    // Without a choice, the connection is encrypted, because the server offers it.
    let (_, said) = stage.call("&sslrootcert=DIR/ours.pem", &[], &["doctor"]);
    assert!(!said.contains("turn on ssl"), "{said}");
    let (_, said) = stage.call("&sslmode=disable", &[], &["doctor"]);
    assert!(said.contains("turn on ssl"), "{said}");
}

#[test]
fn a_certificate_that_is_not_accepted_is_named_with_what_to_do() {
    let Some(stage) = Stage::new() else { return };
    let full = "&sslmode=verify-full&sslrootcert=DIR/ours.pem";
    stage.serve(stage.ours.issue("db.example", VALID));
    let other = "is not for localhost, but for ";
    stage.check(full, &[], 69, other);
    stage.check(full, &[], 69, "db.example");
    stage.check("&sslmode=verify-ca&sslrootcert=DIR/ours.pem", &[], 69, other);
    stage.check("&sslrootcert=DIR/ours.pem", &[], 69, other);
    stage.serve(stage.ours.issue("localhost", [2019, 2020]));
    stage.check(full, &[], 69, " days ago; renew it at the server");
    stage.serve(stage.ours.issue("localhost", [3999, 4000]));
    stage.check(full, &[], 69, "is not valid yet; compare the clock");
    stage.serve((stage.ours.certificate.clone(), stage.ours.key.clone()));
    stage.check(full, &[], 69, "is one of an authority; give the server a certificate of its own");
}

#[test]
fn a_server_without_tls_is_used_only_if_the_user_does_not_insist() {
    let Some(stage) = Stage::new() else { return };
    stage.server.set_certificate(None);
    let none = "the server has no TLS, and sslmode insists on it; turn on ssl at the server";
    for mode in ["require", "verify-ca", "verify-full"] {
        stage.check(&format!("&sslmode={mode}"), &[], 69, none);
        stage.check("", &[("PGSSLMODE", mode)], 69, none);
    }
    stage.check("&sslmode=prefer", &[], 0, LOCAL);
    stage.check("&sslmode=disable", &[], 0, LOCAL);
    stage.check("", &[("PGSSLMODE", "")], 0, LOCAL);
    // A socket does not leave the machine.
    let url = stage.server.new_store();
    let mut command = stage.bench.command(&["store", "init"]);
    command.env("WINDLASS_STATE", url).env("XDG_STATE_HOME", stage.bench.path("home"));
    let output = command.env("PGSSLMODE", "verify-full").output().expect("the binary runs");
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let Some(stage) = Stage::new() else { return };
    let modes = "use disable, prefer, require or verify-full";
    stage.check("&sslmode=allow", &[], 2, modes);
    stage.check("&sslmode=verify_full", &[], 2, modes);
    stage.check("", &[("PGSSLMODE", "on")], 2, modes);
    stage.check("&sslrootcert=ours.pem", &[], 2, "has to begin with a slash");
    stage.check("&sslrootcert=DIR/none.pem", &[], 69, "cannot use the certificates in /");
    stage.check("&sslrootcert=DIR/empty.pem", &[], 69, "it has none in the PEM format");
}

#[test]
fn steps_and_services_use_the_same_certificates() {
    for (options, variables) in [
        ("&sslmode=verify-full&sslrootcert=DIR/ours.pem", &[][..]),
        ("&sslmode=verify-full", &[("PGSSLROOTCERT", "DIR/ours.pem")]),
    ] {
        let Some(stage) = Stage::new() else { return };
        stage.serve(stage.ours.issue("localhost", VALID));
        let flow = "[step.a]\nrun = 'cd / && \"$WINDLASS\" emit was-here'\n";
        stage.bench.write("flow.toml", flow);
        let call = |arguments: &[&str]| {
            let (code, said) = stage.call(options, variables, arguments);
            assert_eq!(code, 0, "{options}, {arguments:?}: {said}");
            said
        };
        call(&["store", "init"]);
        call(&["run", "flow.toml"]);
        let run = call(&["run", "--detach", "flow.toml"]);
        call(&["wait", run.lines().next().expect("its id")]);
        assert!(call(&["events"]).contains("was-here"));
    }
}
