//! One row of the table of routes: path, scope, request and answers.

use axum::routing::MethodRouter;
use schemars::{JsonSchema, SchemaGenerator};

use crate::serve::auth::Scope;
use crate::serve::state::Service;

/// A function that makes a schema.
pub(crate) type Schema = fn(&mut SchemaGenerator) -> schemars::Schema;

/// The schema of a type.
pub(crate) fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> schemars::Schema {
    generator.subschema_for::<T>()
}

/// The methods that routes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Delete,
}

impl Method {
    /// As OpenAPI writes it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Method::Get => "get",
            Method::Post => "post",
            Method::Delete => "delete",
        }
    }
}

/// A successful answer of a route.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// A document.
    Json(Schema),
    /// A stream of events.
    Events,
    /// Something else.
    Bytes(&'static str),
    /// Nothing.
    Nothing,
}

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The name of the operation in programs.
    pub(crate) operation: &'static str,
    pub(crate) handler: fn() -> MethodRouter<Service>,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    /// The scope that a token needs; none: any token will do.
    pub(crate) scope: Option<Scope>,
    /// Whether the route needs no token.
    pub(crate) is_open: bool,
    pub(crate) query: Option<Schema>,
    pub(crate) body: Option<Schema>,
    /// Whether an `Idempotency-Key` is read.
    pub(crate) is_keyed: bool,
    /// Whether a `Last-Event-ID` is read.
    pub(crate) is_resumable: bool,
    /// Whether the answer names a run in its headers.
    pub(crate) names_run: bool,
    /// The successful answers, by status.
    pub(crate) answers: [Option<(u16, Answer)>; 2],
    /// The statuses of problems that only this route has.
    pub(crate) fails: &'static [u16],
}

/// A row with nothing but a name.
pub(crate) const fn row(
    method: Method,
    path: &'static str,
    operation: &'static str,
    handler: fn() -> MethodRouter<Service>,
) -> Route {
    Route {
        method,
        path,
        operation,
        handler,
        tag: "",
        summary: "",
        scope: None,
        is_open: false,
        query: None,
        body: None,
        is_keyed: false,
        is_resumable: false,
        names_run: false,
        answers: [None, None],
        fails: &[],
    }
}

impl Route {
    pub(crate) const fn about(mut self, tag: &'static str, summary: &'static str) -> Route {
        self.tag = tag;
        self.summary = summary;
        self
    }

    pub(crate) const fn for_scope(mut self, scope: Scope) -> Route {
        self.scope = Some(scope);
        self
    }

    pub(crate) const fn open(mut self) -> Route {
        self.is_open = true;
        self
    }

    pub(crate) const fn query(mut self, schema: Schema) -> Route {
        self.query = Some(schema);
        self
    }

    pub(crate) const fn body(mut self, schema: Schema) -> Route {
        self.body = Some(schema);
        self
    }

    pub(crate) const fn keyed(mut self) -> Route {
        self.is_keyed = true;
        self
    }

    pub(crate) const fn resumable(mut self) -> Route {
        self.is_resumable = true;
        self
    }

    pub(crate) const fn of_a_run(mut self) -> Route {
        self.names_run = true;
        self
    }

    pub(crate) const fn json(self, status: u16, schema: Schema) -> Route {
        self.answer(status, Answer::Json(schema))
    }

    pub(crate) const fn events(self, status: u16) -> Route {
        self.answer(status, Answer::Events)
    }

    pub(crate) const fn bytes(self, status: u16, media: &'static str) -> Route {
        self.answer(status, Answer::Bytes(media))
    }

    pub(crate) const fn nothing(self, status: u16) -> Route {
        self.answer(status, Answer::Nothing)
    }

    pub(crate) const fn fails(mut self, statuses: &'static [u16]) -> Route {
        self.fails = statuses;
        self
    }

    const fn answer(mut self, status: u16, answer: Answer) -> Route {
        let place = if self.answers[0].is_none() { 0 } else { 1 };
        self.answers[place] = Some((status, answer));
        self
    }

    /// Every status of a problem that the route can answer with, in order.
    pub(crate) fn problems(&self) -> Vec<u16> {
        // The shell may answer any request with these.
        let mut all = vec![400, 421, 429, 500, 503];
        if !self.is_open {
            all.push(401);
        }
        if self.scope.is_some() {
            all.push(403);
        }
        if self.path.contains('{') {
            all.push(404);
        }
        if self.body.is_some() {
            all.extend([413, 415]);
        }
        if self.is_keyed {
            all.push(422);
        }
        all.extend(self.fails);
        all.sort_unstable();
        all.dedup();
        all
    }
}
