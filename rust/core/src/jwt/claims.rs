use std::borrow::Cow;

use super::error::{JwtError, OptionsError};
use super::members::{Members, Read, Value};

/// The latest time that a claim may name, the end of the year 9999 in unix seconds: what lies
/// beyond is taken for milliseconds, with which a token would never end.
pub const LATEST_SECONDS: f64 = 253_402_300_799.0;

/// Names of the claims that may be called anything; a dot goes one level down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimNames {
    /// Whose request it is.
    pub tenant: String,
    /// The role of the holder.
    pub role: String,
    /// What the holder may do.
    pub scopes: String,
}

impl Default for ClaimNames {
    fn default() -> Self {
        Self {
            tenant: "tenant".to_owned(),
            role: "role".to_owned(),
            scopes: "scope".to_owned(),
        }
    }
}

/// What a token says whose signature holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// `sub`.
    pub subject: String,
    /// The tenant, if it names one.
    pub tenant: Option<String>,
    /// The role, if it names one.
    pub role: Option<String>,
    /// The scopes; none at all differs from an empty list.
    pub scopes: Option<Vec<String>>,
    /// `exp`, in unix seconds.
    pub expires_at: f64,
}

#[derive(Debug)]
pub(super) struct ClaimReader {
    members: Members,
    issuer: Option<String>,
    audience: Option<String>,
    leeway_seconds: f64,
}

const EXP: usize = 0;
const NBF: usize = 1;
const IAT: usize = 2;
const SUB: usize = 3;
const TENANT: usize = 4;
const ROLE: usize = 5;
const SCOPES: usize = 6;
const ISS: usize = 7;
const AUD: usize = 8;

impl ClaimReader {
    pub(super) fn new(
        names: &ClaimNames,
        issuer: Option<String>,
        audience: Option<String>,
        leeway_seconds: u32,
    ) -> Result<Self, OptionsError> {
        let mut members = Members::flat(["exp", "nbf", "iat", "sub"]);
        for name in [&names.tenant, &names.role, &names.scopes] {
            members.add(name)?;
        }
        members.add("iss")?;
        members.add("aud")?;
        Ok(Self {
            members,
            issuer,
            audience,
            leeway_seconds: f64::from(leeway_seconds),
        })
    }

    /// The claims of a payload, if they hold at `now` (unix seconds).
    pub(super) fn read(&self, json: &str, now: f64) -> Result<Claims, JwtError> {
        let read = self
            .members
            .read(json)
            .map_err(|_| JwtError::Malformed("its claims are not a JSON object"))?;
        let expires_at = self.check_time(&read, now)?;
        self.check_issuer(read.get(ISS))?;
        self.check_audience(read.get(AUD))?;
        let subject = text(read.get(SUB), "subject")?.ok_or(JwtError::Claim("subject"))?;
        Ok(Claims {
            subject,
            tenant: text(read.get(TENANT), "tenant")?,
            role: text(read.get(ROLE), "role")?,
            scopes: scopes(read.get(SCOPES))?,
            expires_at,
        })
    }

    fn check_time(&self, read: &Read<'_, '_>, now: f64) -> Result<f64, JwtError> {
        let end = date(read.get(EXP), "end")?.ok_or(JwtError::Claim("end"))?;
        let start = date(read.get(NBF), "beginning")?;
        let issued = date(read.get(IAT), "time of issue")?;
        if end <= now - self.leeway_seconds {
            return Err(JwtError::Expired);
        }
        let ahead = |date: Option<f64>| date.is_some_and(|date| date > now + self.leeway_seconds);
        if ahead(start) || ahead(issued) {
            return Err(JwtError::NotYetValid);
        }
        Ok(end)
    }

    fn check_issuer(&self, found: &Value<'_>) -> Result<(), JwtError> {
        match (&self.issuer, found) {
            (None, _) => Ok(()),
            (Some(wanted), Value::Text(issuer)) if issuer == wanted => Ok(()),
            _ => Err(JwtError::Issuer),
        }
    }

    fn check_audience(&self, found: &Value<'_>) -> Result<(), JwtError> {
        let holds = match (&self.audience, found) {
            (None, _) => true,
            (Some(wanted), Value::Text(audience)) => audience == wanted,
            (Some(wanted), Value::Texts(audiences)) => audiences.iter().any(|it| it == wanted),
            _ => false,
        };
        if holds {
            Ok(())
        } else {
            Err(JwtError::Audience)
        }
    }
}

/// A `NumericDate`, with or without a fraction.
fn date(value: &Value<'_>, name: &'static str) -> Result<Option<f64>, JwtError> {
    match value {
        Value::Absent => Ok(None),
        Value::Number(seconds) if (0.0..=LATEST_SECONDS).contains(seconds) => Ok(Some(*seconds)),
        _ => Err(JwtError::Claim(name)),
    }
}

/// A name: not empty, and nothing in it that could break a line of a log.
fn text(value: &Value<'_>, name: &'static str) -> Result<Option<String>, JwtError> {
    match value {
        Value::Absent => Ok(None),
        Value::Text(text) if is_name(text) => Ok(Some(text.clone().into_owned())),
        _ => Err(JwtError::Claim(name)),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_control)
}

fn scopes(value: &Value<'_>) -> Result<Option<Vec<String>>, JwtError> {
    let wrong = JwtError::Claim("scopes");
    let scopes = match value {
        Value::Absent => return Ok(None),
        Value::Text(text) => text.split(' ').filter(|it| !it.is_empty()).collect(),
        Value::Texts(texts) => texts.iter().map(Cow::as_ref).collect::<Vec<_>>(),
        Value::Number(_) | Value::Other => return Err(wrong),
    };
    if scopes.iter().all(|it| is_name(it) && !it.contains(' ')) {
        Ok(Some(scopes.into_iter().map(str::to_owned).collect()))
    } else {
        Err(wrong)
    }
}
