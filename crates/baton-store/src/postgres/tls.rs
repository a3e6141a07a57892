//! Encryption of connections, and verification of the server's certificate.
//!
//! `disable` sends everything in the clear; `prefer` and `require` encrypt and accept any certificate, as libpq does;
//! `verify-full` also requires a certificate that an authority vouches for and that has the host's name. Only the last
//! one keeps out an attacker between client and server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PgError;

/// The encryption that an address requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TlsMode {
    Disable,
    Prefer,
    Require,
    /// Encrypts and verifies, with the authorities of a file, or those of the system.
    VerifyFull(Option<PathBuf>),
}

impl TlsMode {
    /// Reads `sslmode` and `sslrootcert`.
    pub(super) fn read(mode: Option<&str>, root: Option<PathBuf>) -> Result<TlsMode, PgError> {
        let mode = match mode {
            None | Some("prefer") => TlsMode::Prefer,
            Some("disable") => TlsMode::Disable,
            Some("require") => TlsMode::Require,
            Some("verify-full") => return Ok(TlsMode::VerifyFull(root)),
            Some(other) => {
                let why =
                    format!("sslmode={other} is not known: use disable, prefer, require or verify-full");
                return Err(PgError::Address(why));
            }
        };
        match root {
            Some(_) => Err(PgError::Address(
                "sslrootcert is only looked at with sslmode=verify-full: add it, or leave sslrootcert out"
                    .to_owned(),
            )),
            None => Ok(mode),
        }
    }

    /// The mode as the client library names it.
    pub(super) fn ssl_mode(&self) -> SslMode {
        match self {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyFull(_) => SslMode::Require,
        }
    }

    /// The connector of encrypted connections.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, PgError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| PgError::Tls(e.to_string()))?;
        let config = match self {
            TlsMode::VerifyFull(root) => {
                let roots = match root {
                    Some(file) => from_file(file)?,
                    None => from_system()?,
                };
                builder.with_root_certificates(roots).with_no_client_auth()
            }
            _ => {
                let anyone = Arc::new(Anyone(provider));
                builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }
}

fn from_file(file: &Path) -> Result<RootCertStore, PgError> {
    let fail = |why: String| PgError::Tls(format!("sslrootcert {}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| fail(e.to_string()))? {
        let certificate = certificate.map_err(|e| fail(e.to_string()))?;
        roots.add(certificate).map_err(|e| fail(e.to_string()))?;
    }
    if roots.is_empty() { Err(fail("there is no certificate in it".to_owned())) } else { Ok(roots) }
}

fn from_system() -> Result<RootCertStore, PgError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = "this system has no certificates of authorities: name a file with sslrootcert=FILE";
        return Err(PgError::Tls(why.to_owned()));
    }
    Ok(roots)
}

/// Accepts any certificate, as `prefer` and `require` do: the connection is encrypted, but the server is not verified.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
