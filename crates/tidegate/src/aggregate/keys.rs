//! Keys with which two aggregate gateways authenticate each other. The two gateways carry the TCP
//! connections of users over one connection between them.
//!
//! Each gateway has an Ed25519 key, and its configuration file names the public key of the peer. No
//! certificates are needed.
//!
//! Source: RFC 7250 (raw public keys in TLS), RFC 8410 (Ed25519 in PKCS #8 and in a subject public key).

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use quinn::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use quinn::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as provider,
    verify_tls13_signature_with_raw_key,
};
use quinn::rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use quinn::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use quinn::rustls::sign::CertifiedKey;
use quinn::rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use tidegate_config::hexadecimal;

use crate::code::Code;
use crate::files;
use crate::output::Failure;

/// The keys of a gateway, and the public key of its peer.
#[derive(Clone)]
pub(super) struct Keys {
    seed: [u8; 32],
    public: [u8; 32],
    peer: [u8; 32],
}

/// Maximum size of a key file in bytes: it holds 64 digits and some white space.
const MOST: usize = 4 << 10;

/// DER encoding before the 32 bytes of a private key (RFC 8410, section 7).
const PRIVATE: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// DER encoding before the 32 bytes of a public key (RFC 8410, section 4).
const PUBLIC: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Creates a private key in a new file that only its owner can read. Returns the public key.
pub(crate) fn make(path: &Path) -> Result<String, Failure> {
    let wrong = |what: String| Failure::new(Code::BadIdentity, what);
    let mut seed = [0; 32];
    let random = SystemRandom::new().fill(&mut seed);
    random.map_err(|_| wrong("the system has no random bytes".to_owned()))?;
    let public = public(&seed).ok_or_else(|| wrong("no key can be made".to_owned()))?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| writeln!(file, "{}", digits(&seed)));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::input(Code::FileExists, format!("{} exists", path.display()))
        }
        _ => wrong(format!("cannot write {}: {error}", path.display())),
    })?;
    Ok(digits(&public))
}

/// The public key of the private key at `path`.
pub(crate) fn public_of(path: &Path) -> Result<String, Failure> {
    Keys::read(path, [0; 32]).map(|keys| digits(&keys.public))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn public(seed: &[u8; 32]) -> Option<[u8; 32]> {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
    pair.public_key().as_ref().try_into().ok()
}

impl Keys {
    /// Reads the private key at `path`.
    pub(super) fn read(path: &Path, peer: [u8; 32]) -> Result<Self, Failure> {
        let name = path.display();
        let wrong = |what: String| Failure::input(Code::BadIdentity, what);
        let file = files::read_regular(path, MOST);
        let file = file.map_err(|error| wrong(format!("cannot read the key {name}: {error}")))?;
        if file.mode & 0o077 != 0 {
            let message = format!("the key {name} can be read by others");
            return Err(Failure { help: format!("chmod 600 {name}"), ..wrong(message) });
        }
        let seed = hexadecimal(file.text.trim());
        let seed = seed.ok_or_else(|| wrong(format!("{name} holds no key of 64 digits")))?;
        let public = public(&seed).ok_or_else(|| wrong(format!("{name} holds no usable key")))?;
        if public == peer {
            let message = format!("`peer_key` is the public key of {name} itself");
            return Err(wrong(message));
        }
        Ok(Self { seed, public, peer })
    }

    /// Returns `true` if this gateway opens the aggregate connection to its peer: the gateway with
    /// the smaller public key does.
    pub(super) fn opens(&self) -> bool {
        self.public < self.peer
    }

    /// Derives 32 secret bytes for another `purpose`. Each start derives the same bytes. They do
    /// not reveal the key.
    pub(super) fn derive(&self, purpose: &str) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.seed);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::hmac::sign(&key, purpose.as_bytes()).as_ref());
        bytes
    }

    /// The private key together with the public key. TLS takes this pair in place of a certificate.
    pub(super) fn certified(&self) -> Result<Arc<CertifiedKey>, Error> {
        let private = PrivatePkcs8KeyDer::from([&PRIVATE[..], &self.seed].concat());
        let private = provider::sign::any_eddsa_type(&private)?;
        let public = CertificateDer::from([&PUBLIC[..], &self.public].concat());
        Ok(Arc::new(CertifiedKey::new(vec![public], private)))
    }

    /// A verifier that accepts only the peer's public key.
    pub(super) fn pinned(&self, provider: &CryptoProvider) -> Arc<Pinned> {
        let key = [&PUBLIC[..], &self.peer].concat();
        Arc::new(Pinned { key, algorithms: provider.signature_verification_algorithms })
    }
}

/// Accepts a single public key.
#[derive(Debug)]
pub(super) struct Pinned {
    key: Vec<u8>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn is_peer(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        if key.as_ref() == self.key {
            Ok(())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// Refuses every TLS 1.2 handshake, because QUIC requires TLS 1.3.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.is_peer(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.is_peer(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Keys of two gateways with mutual trust. The first gateway opens the connection.
    pub(crate) fn pair() -> [Keys; 2] {
        let (one, other) = ([1; 32], [2; 32]);
        let [a, b] = [one, other].map(|seed| public(&seed).unwrap());
        let one = Keys { seed: one, public: a, peer: b };
        let other = Keys { seed: other, public: b, peer: a };
        if one.opens() { [one, other] } else { [other, one] }
    }

    /// Keys that the peer of the gateway with the keys `victim` must refuse. With `opens`, a gateway
    /// with these keys opens the connection.
    pub(crate) fn impostor(victim: &Keys, opens: bool) -> Keys {
        let keys = (3..).map(|byte| [byte; 32]).map(|seed| {
            let public = public(&seed).unwrap();
            Keys { seed, public, peer: victim.peer }
        });
        keys.into_iter().find(|it| it.opens() == opens).unwrap()
    }

    #[test]
    fn a_key_is_made_once_and_refused_if_other_users_can_read_it() {
        let path = std::env::temp_dir().join(format!("tidegate-identity-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let made = make(&path).unwrap();
        assert_eq!(made.len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(make(&path).unwrap_err().code, Code::FileExists);
        assert_eq!(public_of(&path).unwrap(), made);
        let read = |peer| Keys::read(&path, peer).map(|keys| digits(&keys.public));
        assert_eq!(read([7; 32]).unwrap(), made);
        // Catches: a gateway whose file names its own public key as the peer's.
        let same = read(hexadecimal(&made).unwrap()).unwrap_err();
        assert_eq!(same.code, Code::BadIdentity);
        for mode in [0o640, 0o604, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let refused = read([7; 32]).unwrap_err();
            assert!(refused.help.contains("chmod 600"), "{refused}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "no key").unwrap();
        assert_eq!(read([7; 32]).unwrap_err().code, Code::BadIdentity);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn public_keys_equal_the_example_of_rfc_8032() {
        // RFC 8032, section 7.1, test 1.
        let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        let expected = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(digits(&public(&hexadecimal(seed).unwrap()).unwrap()), expected);
        let [one, other] = pair();
        assert!(one.opens() && !other.opens());
        assert_ne!(one.derive("a"), one.derive("b"));
        assert!(one.certified().is_ok());
    }
}
