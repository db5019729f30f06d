//! Messages of etcd's JSON gateway. 64-bit numbers are strings, keys and values are base64, and
//! fields with default values are left out.
//!
//! Source: etcd 3.4, `etcdserver/etcdserverpb/rpc.proto`; the JSON mapping of Protocol Buffers 3.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Base64(pub(super) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Base64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("base64")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Base64, E> {
        STANDARD.decode(text).map(Base64).map_err(E::custom)
    }
}

/// A 64-bit number that is a string in JSON.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Number(pub(super) u64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a string with one")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        text.parse().map(Number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        Ok(Number(number))
    }
}

/// The header of every answer.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Header {
    /// The revision of the whole store at the time of the answer.
    #[serde(default)]
    pub(super) revision: Number,
}

/// A key with its value.
#[derive(Debug, Deserialize)]
pub(super) struct KeyValue {
    pub(super) key: Base64,
    #[serde(default)]
    pub(super) value: Base64,
    /// Revision of the last change of the key.
    #[serde(default)]
    pub(super) mod_revision: Number,
}

/// Reads keys: `POST /v3/kv/range`. Keys come in lexical order by default.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct RangeRequest {
    pub(super) key: Base64,
    /// End of the range: the first key after it. Empty to read one key only.
    pub(super) range_end: Base64,
    pub(super) limit: Number,
    /// The revision to read; 0 means the current one.
    pub(super) revision: Number,
    pub(super) keys_only: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_target: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sort_order: Option<&'static str>,
}

/// The answer to [`RangeRequest`].
#[derive(Debug, Deserialize)]
pub(super) struct RangeAnswer {
    pub(super) header: Header,
    #[serde(default)]
    pub(super) kvs: Vec<KeyValue>,
    /// The range has more keys than the answer.
    #[serde(default)]
    pub(super) more: bool,
    /// Number of keys in the range, regardless of `limit`.
    #[serde(default)]
    pub(super) count: Number,
}

/// Changes keys: `POST /v3/kv/txn`. The operations `success` run if all conditions `compare` hold.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct TxnRequest {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
}

/// A condition: the creation or change revision of a key has this value.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compare {
    key: Base64,
    result: &'static str,
    target: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_revision: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mod_revision: Option<Number>,
}

impl Compare {
    /// The condition that the key does not exist.
    pub(super) fn absent(key: &[u8]) -> Self {
        Self {
            key: Base64(key.to_vec()),
            result: "EQUAL",
            target: "CREATE",
            create_revision: Some(Number(0)),
            mod_revision: None,
        }
    }

    /// The condition that the key was last changed at `revision`.
    pub(super) fn unchanged(key: &[u8], revision: u64) -> Self {
        Self {
            key: Base64(key.to_vec()),
            result: "EQUAL",
            target: "MOD",
            create_revision: None,
            mod_revision: Some(Number(revision)),
        }
    }
}

/// A change in a transaction.
#[derive(Clone, Debug, Serialize)]
pub(super) enum Operation {
    /// Writes a key.
    #[serde(rename = "request_put")]
    Put(PutRequest),
    /// Removes a key.
    #[serde(rename = "request_delete_range")]
    Delete {
        /// The key.
        key: Base64,
    },
}

/// Writes a key: `POST /v3/kv/put`.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PutRequest {
    pub(super) key: Base64,
    pub(super) value: Base64,
    /// The lease to which the key is bound: the key is removed when the lease ends. 0 means none.
    pub(super) lease: Number,
}

/// The answer to [`TxnRequest`] and to [`PutRequest`].
#[derive(Debug, Deserialize)]
pub(super) struct Written {
    pub(super) header: Header,
    /// `true` if the conditions held.
    #[serde(default)]
    pub(super) succeeded: bool,
}

/// A lease: `POST /v3/lease/grant`, and the answer.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Lease {
    #[serde(rename = "TTL", default)]
    pub(super) seconds: Number,
    #[serde(rename = "ID", default)]
    pub(super) id: Number,
}

/// Extends or ends a lease: `POST /v3/lease/keepalive` and `/v3/lease/revoke`.
#[derive(Debug, Serialize)]
pub(super) struct LeaseId {
    #[serde(rename = "ID")]
    pub(super) id: Number,
}

/// Logs in: `POST /v3/auth/authenticate`. Not `Debug`, because it holds the password.
#[derive(Serialize)]
pub(super) struct AuthenticateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a str,
}

/// The answer to a login. Not `Debug`, because it holds the token.
#[derive(Deserialize)]
pub(super) struct Authenticated {
    pub(super) token: String,
}

/// Creates a watch: `POST /v3/watch`.
#[derive(Debug, Serialize)]
pub(super) struct WatchRequest {
    pub(super) create_request: WatchCreate,
}

/// A watch of a range of keys.
#[derive(Debug, Default, Serialize)]
pub(super) struct WatchCreate {
    pub(super) key: Base64,
    pub(super) range_end: Base64,
    pub(super) start_revision: Number,
    /// Lets the server split a large answer into several.
    pub(super) fragment: bool,
}

/// A line of the answer to [`WatchRequest`].
#[derive(Debug, Deserialize)]
pub(super) struct WatchLine {
    #[serde(default)]
    pub(super) result: Option<WatchAnswer>,
    #[serde(default)]
    pub(super) error: Option<StreamError>,
}

/// An answer to a watch: changes, or its beginning or end.
#[derive(Debug, Deserialize)]
pub(super) struct WatchAnswer {
    #[serde(default)]
    pub(super) created: bool,
    #[serde(default)]
    pub(super) canceled: bool,
    /// The oldest revision still available, if the watch was to begin before it.
    #[serde(default)]
    pub(super) compact_revision: Number,
    #[serde(default)]
    pub(super) cancel_reason: String,
    #[serde(default)]
    pub(super) events: Vec<Event>,
}

/// A change of a key.
#[derive(Debug, Deserialize)]
pub(super) struct Event {
    pub(super) kv: Changed,
}

/// The changed key. Only its revision is needed.
#[derive(Debug, Deserialize)]
pub(super) struct Changed {
    #[serde(default)]
    pub(super) mod_revision: Number,
}

/// An error inside a stream of answers.
#[derive(Debug, Deserialize)]
pub(super) struct StreamError {
    #[serde(default, alias = "code")]
    pub(super) grpc_code: u32,
    #[serde(default)]
    pub(super) message: String,
}

/// The body of a response whose status is not 200.
#[derive(Debug, Deserialize)]
pub(super) struct ErrorBody {
    #[serde(default)]
    pub(super) code: u32,
    #[serde(default)]
    pub(super) message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_strings_and_bytes_are_base64() {
        let request = RangeRequest { key: Base64(b"/t/".to_vec()), ..RangeRequest::default() };
        let text = serde_json::to_string(&request).unwrap();
        assert!(text.contains(r#""key":"L3Qv""#) && text.contains(r#""revision":"0""#), "{text}");
        let answer = r#"{"header":{"revision":"3"},"kvs":[{"key":"L3Q=","mod_revision":2}]}"#;
        let answer: RangeAnswer = serde_json::from_str(answer).unwrap();
        assert_eq!((answer.header.revision.0, answer.kvs[0].mod_revision.0), (3, 2));
        assert_eq!(answer.kvs[0].key.0, b"/t");
        for wrong in [r#"{"header":{"revision":"x"}}"#, r#"{"header":{"revision":-1}}"#] {
            assert!(serde_json::from_str::<RangeAnswer>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_operation_in_json_has_the_name_of_its_request() {
        let delete = Operation::Delete { key: Base64(b"a".to_vec()) };
        let text = serde_json::to_string(&delete).unwrap();
        assert_eq!(text, r#"{"request_delete_range":{"key":"YQ=="}}"#);
    }
}
