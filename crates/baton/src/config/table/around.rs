//! The settings of the services around this one: the execution service and the context service.

use super::super::value::ValueKind;
use super::{DAY, SettingSpec, plain};

/// The settings of the services around this one.
pub(super) const AROUND: &[SettingSpec] = &[
    SettingSpec {
        key: "services.execution.url",
        kind: ValueKind::Text,
        default: "",
        env: Some("EXECUTION_SERVICE_URL"),
        flag: None,
        doc: "The service whose tools agents can call: asked for its tools with `GET /tools`, called with `POST /execute`. Not set: none. See docs/services.md.",
        example: "\"http://localhost:8002\"",
    },
    plain(
        "services.execution.key_env",
        ValueKind::Variable,
        "\"EXECUTION_SERVICE_TOKEN\"",
        "\"TOOLS_TOKEN\"",
        "The environment variable that holds our token for it. If that is not set, none is sent.",
    ),
    plain(
        "services.execution.key_file",
        ValueKind::KeyFile,
        "",
        "\"execution.token\"",
        "The file that holds our token for it, instead; from the folder of this file, if it is no whole path.",
    ),
    plain(
        "services.execution.timeout_s",
        ValueKind::Whole(1, DAY),
        "30",
        "60",
        "How long one call may take, in seconds, where a tool says nothing of its own.",
    ),
    plain(
        "services.execution.refresh_s",
        ValueKind::Whole(1, DAY),
        "30",
        "300",
        "How often it is asked which tools it has, in seconds. While it does not answer it is asked more often.",
    ),
    SettingSpec {
        key: "services.context.url",
        kind: ValueKind::Text,
        default: "",
        env: Some("CONTEXT_SERVICE_URL"),
        flag: None,
        doc: "The service that is told when runs start, end and wait, with `POST /events`. Not set: nobody is told. See docs/services.md.",
        example: "\"http://localhost:8001\"",
    },
    plain(
        "services.context.key_env",
        ValueKind::Variable,
        "\"CONTEXT_SERVICE_TOKEN\"",
        "\"AUDIT_TOKEN\"",
        "The environment variable that holds our token for it. If that is not set, none is sent.",
    ),
    plain(
        "services.context.key_file",
        ValueKind::KeyFile,
        "",
        "\"context.token\"",
        "The file that holds our token for it, instead; from the folder of this file, if it is no whole path.",
    ),
    plain(
        "services.context.source",
        ValueKind::Text,
        "\"baton\"",
        "\"help-desk\"",
        "What this Baton is called in the events of the audit trail.",
    ),
    plain(
        "services.context.with_text",
        ValueKind::Switch,
        "false",
        "true",
        "Whether those events hold what people and models said.",
    ),
];
