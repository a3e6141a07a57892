//! Reading JSON as JSON Schema means it: `2.0` is a whole number, and a list is no object.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde_json::Number;

/// Beyond this, a number with a point does not say which whole number it is.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number.
pub(super) fn number<'de, D: Deserializer<'de>, T: TryFrom<i128>>(from: D) -> Result<T, D::Error> {
    read(&Number::deserialize(from)?)
}

/// A whole number, or null.
pub(super) fn maybe<'de, D: Deserializer<'de>, T: TryFrom<i128>>(from: D) -> Result<Option<T>, D::Error> {
    Option::<Number>::deserialize(from)?.map(|number| read(&number)).transpose()
}

fn read<T: TryFrom<i128>, E: Error>(number: &Number) -> Result<T, E> {
    let decimal = number.as_f64().filter(|it| it.fract() == 0.0 && it.abs() <= EXACT);
    let whole = number.as_i128().or_else(|| decimal.map(|it| it as i128));
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.ok_or_else(|| E::invalid_value(Unexpected::Other(&number.to_string()), &"a whole number that fits"))
}

/// An object, or null.
pub(super) fn object<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_any(Fields(PhantomData))
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Age, Fork, ForkRun, Process, Prune, RunConfig};
    use serde::de::DeserializeOwned;

    fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_number_may_have_a_point() {
        let index = |text: &str| read::<Fork>(&format!("{{\"index\": {text}}}")).map(|fork| fork.index);
        assert_eq!(index("7"), Ok(Some(7)));
        assert_eq!(index("-1"), Ok(Some(-1)));
        assert_eq!(index("2688.0"), Ok(Some(2688)));
        assert_eq!(index("null"), Ok(None));
        for wrong in ["2.5", "1e300", "18446744073709551616", "\"7\""] {
            assert!(index(wrong).is_err(), "{wrong}");
        }
        assert_eq!(read::<ForkRun>("{\"step\": 3.0}").map(|it| it.step), Ok(3));
        assert!(read::<ForkRun>("{\"step\": 4294967296}").is_err());
        assert!(read::<RunConfig>("{\"max_tokens\": -1}").is_err());
        let age =
            |text: &str| read::<Prune>(&format!("{{\"older_than\": {text}}}")).map(|prune| prune.older_than);
        assert_eq!(age("60"), Ok(Some(Age::Seconds(60))));
        assert_eq!(age("\"7d\""), Ok(Some(Age::Text("7d".to_owned()))));
    }

    #[test]
    fn a_list_is_no_object() {
        let config = |text: &str| {
            read::<Process>(&format!("{{\"message\": \"m\", \"config\": {text}}}"))
                .map(|it| it.config.is_some())
        };
        assert_eq!(config("null"), Ok(false));
        assert_eq!(config("{}"), Ok(true));
        let error = config("[null]").unwrap_err();
        assert!(error.starts_with("invalid type: sequence, expected an object"), "{error}");
        assert!(config("{\"x\": 1}").unwrap_err().starts_with("unknown field `x`"));
    }
}
