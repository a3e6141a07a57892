//! The tables of the sections with chosen names, as they stand in the file.
//!
//! Fields that the table does not know are refused, with their place. Whether the values fit together is checked by
//! [`super::serving`].

use std::ffi::OsString;

use toml::de::{DeTable, DeValue};

use super::file::{Reading, secret};
use super::named::{FieldSpec, SECTIONS, Section, quoted};
use super::nearest::question;
use super::value::{self, Value};
use super::{ValueOrigin, wrong};
use crate::failure::Failure;

/// One table of such a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedTable {
    pub(crate) section: &'static Section,
    /// The name that the user chose.
    pub(crate) name: String,
    /// Its position in the list, where the section has lists.
    pub(crate) nth: Option<usize>,
    /// The line on which it begins.
    pub(crate) origin: ValueOrigin,
    pub(crate) values: Vec<Stated>,
}

/// One value of such a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stated {
    pub(crate) field: &'static FieldSpec,
    pub(crate) value: Value,
    pub(crate) origin: ValueOrigin,
}

impl NamedTable {
    /// The whole key of the table, as in `roles.reasoning[0]`.
    pub(crate) fn key(&self) -> String {
        let nth = self.nth.map(|nth| format!("[{nth}]")).unwrap_or_default();
        format!("{}.{}{nth}", self.section.key, quoted(&self.name))
    }

    /// A value by the name of its field.
    pub(crate) fn get(&self, field: &str) -> Option<&Stated> {
        self.values.iter().find(|stated| stated.field.name() == field)
    }
}

/// Applies the environment variables to the tables that they are meant for.
pub(super) fn from_environment(
    groups: &mut Vec<NamedTable>,
    environment: &dyn Fn(&str) -> Option<OsString>,
) -> Result<(), Failure> {
    let fields = SECTIONS.iter().flat_map(|section| section.fields.iter().map(move |field| (section, field)));
    for (section, field) in fields {
        let Some((name, variable)) = field.env else { continue };
        let Some(text) = environment(variable) else { continue };
        let text = text.to_str().ok_or_else(|| wrong(variable, "it is not UTF-8 text"))?;
        let value = value::from_text(field.kind, text).map_err(|why| wrong(variable, &why))?;
        let origin = ValueOrigin::Environment(variable);
        let stated = Stated { field, value, origin: origin.clone() };
        match groups.iter_mut().find(|group| group.section == section && group.name == name) {
            Some(group) => {
                group.values.retain(|old| old.field != field);
                group.values.push(stated);
            }
            None => {
                let (name, values) = (name.to_owned(), vec![stated]);
                groups.push(NamedTable { section, name, nth: None, origin, values });
            }
        }
    }
    Ok(())
}

impl Reading<'_> {
    /// Reads all tables below the key of a section.
    pub(super) fn section(
        &self,
        section: &'static Section,
        at: usize,
        value: &DeValue<'_>,
        groups: &mut Vec<NamedTable>,
    ) {
        let DeValue::Table(names) = value else {
            let why = format!("`{}`: expected tables", section.key);
            return self.refuse(at, self.wrong(at, &why).hint(example(section)));
        };
        for (name, value) in names {
            let (at, name) = (name.span().start, name.get_ref().as_ref());
            match (section.is_list, value.get_ref()) {
                (false, DeValue::Table(table)) => groups.push(self.group(section, name, None, at, table)),
                (true, DeValue::Array(items)) => {
                    for (nth, item) in items.iter().enumerate() {
                        let DeValue::Table(table) = item.get_ref() else {
                            self.refuse(at, self.misshapen(section, name, at));
                            continue;
                        };
                        // A table under a head like `[[roles.x]]` begins at its first key; an inline table has no head.
                        let at = table.iter().map(|(key, _)| key.span().start).min().unwrap_or(at);
                        groups.push(self.group(section, name, Some(nth), at, table));
                    }
                }
                (_, found) => {
                    let refused = self.secret_in(name, at, found);
                    self.refuse(at, refused.unwrap_or_else(|| self.misshapen(section, name, at)));
                }
            }
        }
    }

    fn misshapen(&self, section: &Section, name: &str, at: usize) -> Failure {
        let key = baton_core::id::excerpt(&format!("{}.{name}", section.key));
        let shape = if section.is_list { "a list of tables" } else { "a table" };
        self.wrong(at, &format!("`{key}`: expected {shape}")).hint(example(section))
    }

    fn group(
        &self,
        section: &'static Section,
        name: &str,
        nth: Option<usize>,
        at: usize,
        table: &DeTable<'_>,
    ) -> NamedTable {
        let origin = self.origin(at);
        let mut group = NamedTable { section, name: name.to_owned(), nth, origin, values: Vec::new() };
        for (key, value) in table {
            let (at, origin) = (key.span().start, self.origin(key.span().start));
            let Some(field) = section.field(key.get_ref()) else {
                let refused = self.secret_in(key.get_ref(), at, value.get_ref());
                let refused =
                    refused.unwrap_or_else(|| self.no_field(&group, key.get_ref(), at, value.get_ref()));
                self.refuse(at, refused);
                continue;
            };
            match value::from_toml(field.kind, value.get_ref()) {
                Ok(value) => group.values.push(Stated { field, value, origin }),
                Err(why) => {
                    let key = format!("{}.{}", group.key(), field.name());
                    self.refuse(at, self.wrong(at, &format!("`{key}`: {why}, like {}", field.example)));
                }
            }
        }
        let place = |stated: &Stated| section.fields.iter().position(|field| field == stated.field);
        group.values.sort_by_key(place);
        group
    }

    /// The refusal of a field that the section does not have.
    fn no_field(&self, group: &NamedTable, name: &str, at: usize, value: &DeValue<'_>) -> Failure {
        let (section, key) = (group.section, format!("{}.{}", group.key(), quoted(name)));
        let key = baton_core::id::excerpt(&key);
        // A model's name has a `/`, and often a dot, which means something else in a head.
        if let (Some(rest), "prices") = (path(value), section.key) {
            let meant = section.head(&format!("{}/{name}{rest}", group.name));
            let why = format!("there is no setting `{key}`; did you mean {meant}?");
            return self.wrong(at, &why).hint(format!("write it like {}", section.head(section.example)));
        }
        let names: Vec<&str> = section.fields.iter().map(FieldSpec::name).collect();
        let elsewhere = SECTIONS.iter().find(|it| it.key.starts_with("policy.") && it.field(name).is_some());
        if let (Some(other), true) = (elsewhere, section.key.starts_with("policy.")) {
            let why = format!("there is no setting `{key}`: it is said of a whole channel");
            return self.wrong(at, &why).hint(format!("write it below {}", other.head(other.example)));
        }
        let meant = question(name, names.iter().copied());
        self.wrong(at, &format!("there is no setting `{key}`{meant}")).hint(format!(
            "{} takes {}",
            section.head("NAME"),
            names.join(", ")
        ))
    }

    fn secret_in(&self, key: &str, at: usize, value: &DeValue<'_>) -> Option<Failure> {
        secret(key, at, value).map(|(name, at)| self.refuse_secret(&name, at))
    }
}

/// The keys that the dots of a head led to, if this is a table: the path to the first one that holds anything else.
fn path(value: &DeValue<'_>) -> Option<String> {
    let DeValue::Table(table) = value else { return None };
    let mut inner = table.iter();
    match (inner.next(), inner.next()) {
        (Some((name, value)), None) => {
            let further = path(value.get_ref()).map(|rest| format!(".{}{rest}", name.get_ref()));
            Some(further.unwrap_or_default())
        }
        _ => Some(String::new()),
    }
}

fn example(section: &Section) -> String {
    let field = section.fields.first();
    let line = field.map(|field| format!("{} = {}", field.name(), field.example)).unwrap_or_default();
    format!("write it like {}, and below it {line}", section.head(section.example))
}
