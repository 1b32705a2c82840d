/** The OpenAPI document as a page. */
import { type ComponentChildren, render } from 'preact';
import { ask, reasonOf } from './api.js';
import './style.css';

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

type Content = Record<string, { schema: Schema }>;

interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
}

interface OpenApi {
  info: { title: string; version: string; description: string };
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

function Docs({ info, paths, components }: OpenApi) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const tags = [...new Set(operations.flatMap(({ operation }) => operation.tags))];
  return (
    <>
      <header>
        <h1>
          {info.title} {info.version}
        </h1>
        <p class="quiet">
          {info.description}. <a href="/openapi.json">openapi.json</a> <a href="/">Page</a>
        </p>
      </header>
      <main>
        {tags.map((tag) => (
          <section key={tag}>
            <h2>{tag}</h2>
            {operations
              .filter(({ operation }) => operation.tags.includes(tag))
              .map((one) => (
                <Shown key={one.operation.operationId} {...one} />
              ))}
          </section>
        ))}
        <section>
          <h2>Schemas</h2>
          {Object.entries(components.schemas).map(([name, schema]) => (
            <details key={name} id={`schema-${name}`}>
              <summary>
                <code>{name}</code>
              </summary>
              <Fields schema={schema} />
            </details>
          ))}
        </section>
      </main>
    </>
  );
}

function Shown({ path, method, operation }: { path: string; method: string; operation: Operation }) {
  const { operationId, summary, parameters = [], requestBody, responses } = operation;
  return (
    <details id={operationId}>
      <summary>
        <code>
          {method.toUpperCase()} {path}
        </code>{' '}
        {summary}
      </summary>
      {parameters.length > 0 && (
        <table>
          <tbody>
            {parameters.map(({ name, in: where, required = false, schema = {} }) => (
              <Row key={name} name={`${name} (${where})`} required={required} schema={schema} />
            ))}
          </tbody>
        </table>
      )}
      {Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) => (
        <div key={type}>
          <p>Body</p>
          <Fields schema={schema} />
        </div>
      ))}
      <p>Answers</p>
      <ul>
        {Object.entries(responses).map(([status, { description, content = {} }]) => (
          <li key={status}>
            <code>{status}</code> {description}{' '}
            {Object.entries(content).map(([type, { schema }]) => (
              <span class="quiet" key={type}>
                {type} <Type {...schema} />{' '}
              </span>
            ))}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Fields({ schema }: { schema: Schema }) {
  const { properties = {}, required = [], description } = schema;
  const rows = Object.entries(properties);
  return (
    <>
      {rows.length === 0 && (
        <p>
          <Type {...schema} />
        </p>
      )}
      {description !== undefined && <p class="quiet">{description}</p>}
      {rows.length > 0 && (
        <table>
          <tbody>
            {rows.map(([name, own]) => (
              <Row key={name} name={name} required={required.includes(name)} schema={own} />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Row({ name, required, schema }: { name: string; required: boolean; schema: Schema }) {
  return (
    <tr>
      <td>
        <code>{name}</code> {required && <span class="quiet">required</span>}
      </td>
      <td>
        <Type {...schema} />
      </td>
      <td>{schema.description}</td>
    </tr>
  );
}

function Type({
  $ref,
  const: only,
  enum: values,
  anyOf,
  oneOf,
  allOf,
  items,
  type,
}: Schema): ComponentChildren {
  if ($ref !== undefined) {
    const name = $ref.split('/').at(-1)!;
    return <a href={`#schema-${name}`}>{name}</a>;
  }
  if (only !== undefined) return <code>{JSON.stringify(only)}</code>;
  if (values !== undefined) return <code>{values.map((value) => JSON.stringify(value)).join(' | ')}</code>;
  const choices = anyOf ?? oneOf ?? allOf;
  if (choices !== undefined)
    return choices.map((choice, at) => [
      at > 0 && (allOf === undefined ? ' | ' : ' & '),
      <Type key={at} {...choice} />,
    ]);
  if (items !== undefined)
    return (
      <>
        list of <Type {...items} />
      </>
    );
  return type === undefined ? 'any' : [type].flat().join(' | ');
}

/** A link to a schema opens it. */
function openTarget(): void {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!(target instanceof HTMLDetailsElement)) return;
  target.open = true;
  target.scrollIntoView();
}

try {
  render(<Docs {...(await ask<OpenApi>('/openapi.json'))} />, document.body);
  addEventListener('hashchange', openTarget);
  openTarget();
} catch (error) {
  render(<p class="error">{reasonOf(error)}</p>, document.body);
}
