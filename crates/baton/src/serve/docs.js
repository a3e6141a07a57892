// Shows /openapi.json: every route with what it takes and answers, a way to try it, and all schemas.
// Nothing is loaded from anywhere else, and text is only ever text.
"use strict";

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
code, pre, textarea, input { font: 13px/1.45 ui-monospace, monospace; }
details { border: 1px solid #8886; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; } summary code { font-weight: 600; } summary span { opacity: .75; margin-left: .6rem; }
.get { color: #2a7de1; } .post { color: #1a9c5b; } .delete { color: #d0413e; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; }
textarea { width: 100%; box-sizing: border-box; min-height: 8rem; } input { min-width: 16rem; }
pre { overflow: auto; max-height: 30rem; background: #8881; padding: .6rem; border-radius: 6px; white-space: pre-wrap; }
button { font: inherit; padding: .2rem .9rem; margin: .4rem .4rem .4rem 0; }
`;

/** Makes an element with attributes and children; strings are text. */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

/** Follows references within the document. */
function resolve(api, schema) {
  let found = schema;
  for (let depth = 0; found && found.$ref && depth < 16; depth += 1) {
    found = found.$ref.slice(2).split("/").reduce((at, part) => at && at[part.replace(/~1/g, "/").replace(/~0/g, "~")], api);
  }
  return found || {};
}

/** An example of what fits a schema: what has to be there, and nothing else. */
function example(api, schema, depth = 0) {
  const it = resolve(api, schema);
  if (depth > 6) return null;
  if (it.const !== undefined) return it.const;
  if (it.enum) return it.enum[0];
  const choice = (it.anyOf || it.oneOf || []).find((one) => resolve(api, one).type !== "null");
  if (choice) return example(api, choice, depth + 1);
  const type = Array.isArray(it.type) ? it.type[0] : it.type;
  if (type === "object" || it.properties) {
    const required = it.required || [];
    return Object.fromEntries(required.map((name) => [name, example(api, (it.properties || {})[name], depth + 1)]));
  }
  if (type === "array") return [];
  if (type === "integer" || type === "number") return it.minimum || 0;
  if (type === "boolean") return false;
  return type === "string" ? "text" : null;
}

/** The name of a schema in a few words. */
function named(api, schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `${named(api, schema.items)}[]`;
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return choices.map((choice) => named(api, choice)).join(" | ");
  return [].concat(schema.type || "any").join(" | ") + (schema.format ? ` (${schema.format})` : "");
}

function parametersOf(operation) {
  const rows = (operation.parameters || []).map((parameter) => {
    const input = el("input", { placeholder: parameter.required ? "needed" : "" });
    const row = el("tr", {}, el("td", {}, el("code", {}, parameter.name)), el("td", {}, parameter.in),
      el("td", {}, input), el("td", {}, parameter.description || ""));
    return { parameter, input, row };
  });
  return rows;
}

/** Reads an answer piece by piece, so that a stream is seen while it runs. */
async function show(response, output) {
  const kept = ["content-type", "x-run-id", "x-thread-id", "x-trace-id", "x-correlation-id", "retry-after", "allow"];
  const headers = kept.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
  output.textContent = `${response.status} ${response.statusText}\n${headers.join("\n")}\n\n`;
  const reader = response.body && response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let part = reader && (await reader.read()); part && !part.done; part = await reader.read()) {
    const piece = decoder.decode(part.value, { stream: true });
    text += piece;
    output.append(piece);
  }
  try {
    const pretty = JSON.stringify(JSON.parse(text), null, 2);
    output.textContent = `${response.status} ${response.statusText}\n${headers.join("\n")}\n\n${pretty}`;
  } catch {
    // A stream, or nothing: it stands there already.
  }
}

function trying(api, method, path, operation, rows) {
  const content = operation.requestBody && operation.requestBody.content["application/json"];
  const body = content && el("textarea", { spellcheck: "false", "aria-label": "body" });
  if (body) body.value = JSON.stringify(example(api, content.schema), null, 2);
  const output = el("pre", { hidden: "" });
  const send = el("button", { type: "button" }, "Send");
  const stop = el("button", { type: "button", hidden: "" }, "Stop");
  send.addEventListener("click", async () => {
    let address = path;
    const query = new URLSearchParams();
    const headers = {};
    for (const { parameter, input } of rows) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value === "") continue;
      else if (parameter.in === "query") query.set(parameter.name, input.value);
      else headers[parameter.name] = input.value;
    }
    const token = document.getElementById("token").value;
    if (token) headers.authorization = `Bearer ${token}`;
    if (body) headers["content-type"] = "application/json";
    const answers = Object.values(operation.responses).flatMap((answer) => Object.keys(answer.content || {}));
    if (answers.includes("text/event-stream")) headers.accept = "text/event-stream";
    const stopping = new AbortController();
    stop.onclick = () => stopping.abort();
    output.hidden = stop.hidden = false;
    output.textContent = "…";
    const asked = query.size ? `${address}?${query}` : address;
    try {
      const options = { method: method.toUpperCase(), headers, body: body && body.value, signal: stopping.signal };
      await show(await fetch(asked, options), output);
    } catch (error) {
      output.append(`\n${error.message}`);
    }
    stop.hidden = true;
  });
  return [body && el("p", {}, "Body: ", el("code", {}, named(api, content.schema))), body, el("div", {}, send, stop), output];
}

function route(api, method, path, operation) {
  const rows = parametersOf(operation);
  const answers = Object.entries(operation.responses).map(([status, answer]) => {
    const found = resolve(api, answer);
    const kinds = Object.entries(found.content || {}).map(([media, content]) => `${media} ${named(api, content.schema)}`);
    return el("tr", {}, el("td", {}, el("code", {}, status)), el("td", {}, kinds.join(", ")), el("td", {}, found.description));
  });
  return el("details", { id: operation.operationId },
    el("summary", {}, el("code", { class: method }, method.toUpperCase()), " ", el("code", {}, path), el("span", {}, operation.summary)),
    operation.description && el("p", {}, operation.description),
    rows.length > 0 && el("table", {}, ...rows.map(({ row }) => row)) || null,
    ...trying(api, method, path, operation, rows),
    el("h3", {}, "Answers"), el("table", {}, ...answers));
}

function fill(api) {
  document.getElementById("about").textContent = `${api.info.description} Version ${api.info.version}.`;
  const tags = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags[0];
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push(route(api, method, path, operation));
    }
  }
  for (const [tag, routes] of tags) document.getElementById("routes").append(el("h2", {}, tag), ...routes);
  const schemas = Object.entries(api.components.schemas).map(([name, schema]) =>
    el("details", {}, el("summary", {}, el("code", {}, name), el("span", {}, schema.description || "")),
      el("pre", {}, JSON.stringify(schema, null, 2))));
  document.getElementById("schemas").append(el("h2", {}, "Schemas"), ...schemas);
}

async function begin() {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  document.adoptedStyleSheets = [sheet];
  try {
    const answer = await fetch("/openapi.json");
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    fill(await answer.json());
  } catch (error) {
    document.getElementById("about").textContent = `/openapi.json cannot be read: ${error.message}`;
  }
}

begin();
