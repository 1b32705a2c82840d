/** The OpenAPI document as a page of HTML, without a script. */

/** What is read of schemas and operations. */
interface Schema {
  $ref?: string;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  description?: string;
}

interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  schema?: Schema;
}

interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema }> };
  responses: Record<string, { description: string; content?: Record<string, { schema: Schema }> }>;
}

export interface OpenApi {
  info: { title: string; version: string; description: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

export function docsHtml({ info, paths, components }: OpenApi): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const tags = [...new Set(operations.flatMap(({ operation }) => operation.tags))];
  const sections = tags.map((tag) => {
    const own = operations.filter(({ operation }) => operation.tags.includes(tag));
    return section(
      tag,
      own.map(({ path, method, operation }) => shownOperation(method, path, operation)),
    );
  });
  const schemas = Object.entries(components.schemas).map(([name, schema]) =>
    details(`schema-${name}`, `<code>${escaped(name)}</code>`, shownSchema(schema)),
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(info.title)}: interface</title>
<link rel="stylesheet" href="/assets/page.css">
<link rel="icon" href="data:,">
</head>
<body>
<header><h1>${escaped(info.title)} ${escaped(info.version)}</h1>
<p class="quiet">${escaped(info.description)}. <a href="/openapi.json">openapi.json</a></p></header>
${sections.join('\n')}
${section('Schemas', schemas)}
</body>
</html>
`;
}

function section(title: string, parts: readonly string[]): string {
  return `<section><h2>${escaped(title)}</h2>\n${parts.join('\n')}\n</section>`;
}

function details(id: string, summary: string, body: string): string {
  return `<details id="${escaped(id)}"><summary>${summary}</summary>\n${body}\n</details>`;
}

function shownOperation(method: string, path: string, operation: Operation): string {
  const { operationId, summary, parameters = [], requestBody, responses } = operation;
  const given = parameters.map(({ name, in: where, required, schema = {} }) =>
    row(`${name} (${where})`, required === true, schema),
  );
  const bodies = Object.values(requestBody?.content ?? {}).map(
    ({ schema }) => `<p>Body</p>${shownSchema(schema)}`,
  );
  const answers = Object.entries(responses).map(([status, { description, content = {} }]) => {
    const types = Object.entries(content).map(([type, { schema }]) => `${escaped(type)} ${typeOf(schema)}`);
    return `<li><code>${escaped(status)}</code> ${escaped(description)} <span class="quiet">${types.join(', ')}</span></li>`;
  });
  const head = `<code>${escaped(`${method.toUpperCase()} ${path}`)}</code> ${escaped(summary)}`;
  const body = [table(given), ...bodies, `<p>Answers</p><ul>${answers.join('')}</ul>`];
  return details(operationId, head, body.join('\n'));
}

function shownSchema(schema: Schema): string {
  const { properties, required = [], description } = schema;
  const rows = Object.entries(properties ?? {}).map(([name, own]) => row(name, required.includes(name), own));
  const about = description === undefined ? '' : `<p class="quiet">${escaped(description)}</p>`;
  return rows.length > 0 ? about + table(rows) : `<p>${typeOf(schema)}</p>${about}`;
}

function row(name: string, required: boolean, schema: Schema): string {
  const mark = required ? ' <span class="quiet">required</span>' : '';
  const about = escaped(schema.description ?? '');
  return `<tr><td><code>${escaped(name)}</code>${mark}</td><td>${typeOf(schema)}</td><td>${about}</td></tr>`;
}

function table(rows: readonly string[]): string {
  return rows.length === 0 ? '' : `<table>${rows.join('\n')}</table>`;
}

function typeOf({ $ref, const: only, enum: values, anyOf, oneOf, allOf, items, type }: Schema): string {
  if ($ref !== undefined) {
    const name = $ref.split('/').at(-1)!;
    return `<a href="#schema-${escaped(name)}">${escaped(name)}</a>`;
  }
  if (only !== undefined) return `<code>${escaped(JSON.stringify(only))}</code>`;
  if (values !== undefined) return values.map((value) => typeOf({ const: value })).join(' | ');
  const choices = anyOf ?? oneOf ?? allOf;
  if (choices !== undefined)
    return [...new Set(choices.map(typeOf))].join(allOf === undefined ? ' | ' : ' & ');
  if (items !== undefined) return `list of ${typeOf(items)}`;
  return type === undefined ? 'any' : escaped([type].flat().join(' | '));
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}
