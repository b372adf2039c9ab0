/// A signature algorithm of RFC 7518 or RFC 8037 that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256.
    Hs256,
}

impl Algorithm {
    /// The algorithm of this registered name; names are case-sensitive. RFC 9864 calls Ed25519 by its
    /// own name and deprecates `EdDSA`, which here has never meant another curve.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            "HS256" => Some(Self::Hs256),
            _ => None,
        }
    }

    pub(super) const fn native(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
        }
    }
}
