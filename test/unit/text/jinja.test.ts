/**
 * Templates mean what Python's Jinja2 3.1 makes of them as transformers sets that up. `python.jsonl` has a template or
 * an expression of each kind, with Python's result.
 */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseJson } from '../../../src/text/jinja/json.js';
import { strftime } from '../../../src/text/jinja/strftime.js';
import { Template } from '../../../src/text/jinja/template.js';
import type { Dict } from '../../../src/text/jinja/values.js';
import { CASES, casesOf, testCases } from '../../support/cases.js';
import { TIMED } from '../../support/timed.js';

interface Case {
  template: string;
  /** JSON, whose digits count. Absent: as in the case before. */
  variables: string;
  /** Absent: Python fails. */
  right?: string;
}

const BOUNDS = { steps: 10_000, length: 100_000, total: 1_000_000 };

function pythonCases(): Case[] {
  const lines = readFileSync(new URL('../../data/templates/python.jsonl', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  let variables = '{}';
  return lines.map((line) => {
    const given = { variables, ...(JSON.parse(line) as Omit<Case, 'variables'>) };
    variables = given.variables;
    return given;
  });
}

function rendered({ template, variables }: Pick<Case, 'template' | 'variables'>): string | undefined {
  try {
    return new Template(template).render(parseJson(variables) as Dict, BOUNDS);
  } catch {
    return undefined;
  }
}

/** What differs from Python, with the reason. */
const ARGUED: Record<string, string> = {
  "{{ '{} {1}'.format(1, 2) }}": 'Python forbids to mix numbered and unnumbered fields',
};

it('templates give what they give in Python', () => {
  const cases = pythonCases();
  const wrong = cases.filter((each) => rendered(each) !== each.right);
  expect(cases.length).toBeGreaterThan(50);
  expect(wrong.map(({ template }) => template)).toEqual(
    Object.keys(ARGUED).filter((template) => cases.some((each) => each.template === template)),
  );
});

interface GivenCase {
  id: string;
  template: string;
  variables?: unknown;
  /** Their JSON, where its digits count. */
  variablesJson?: string;
  right: string;
}

function check({ template, variables, variablesJson, right }: GivenCase): void {
  expect(rendered({ template, variables: variablesJson ?? JSON.stringify(variables) })).toBe(right);
}

testCases('templates', casesOf<GivenCase>('peers/jinja.jsonl'), check);

const REPORT = JSON.parse(readFileSync(new URL('reports/templates-lists-and-null.json', CASES), 'utf8'));
testCases(
  'bug reports: templates',
  (REPORT.cases as Omit<GivenCase, 'id'>[]).map((each) => ({ id: each.template, ...each })),
  check,
);

it.each([
  // Refused before it is made.
  [
    "{{ ('9' * 400) | int * [] }}{% for i in range(200) %}{% set x = 'a' * 50000 %}{% endfor %}",
    /400|longer/,
  ],
  [
    "{% set x = [1] | slice(-10 ** 9) %}{% for i in range(200) %}{% set x = 'a' * 50000 %}{% endfor %}",
    /together/,
  ],
  ["{{ ('%s' * 40000) % (('a' * 50000,) * 40000) }}", /longer/],
  ["{{ ('{0}' * 30000).format('a' * 50000) }}", /longer/],
  // Counted where it is read.
  ["{% set s = 'a' * 50000 %}{% for i in range(200) %}{% set x = s.isalnum() %}{% endfor %}", /together/],
  ["{% set s = 'a' * 50000 %}{% for i in range(200) %}{% set x = s | wordcount %}{% endfor %}", /together/],
  ["{% set s = '1' * 50000 %}{% for i in range(200) %}{% set x = s is lower %}{% endfor %}", /together/],
  ["{% set s = 'a' * 50000 %}{% for i in range(200) %}{% set x = s[0] %}{% endfor %}", /together/],
  ["{% set s = 'a' * 50000 %}{% for i in range(200) %}{% set x = s[0:1] %}{% endfor %}", /together/],
  ['{% for i in range(200) %}{% set x = range(50000) %}{% endfor %}', /together/],
  [
    '{% set ns = namespace(x=(1,)) %}{% for i in range(40) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}',
    /key/,
  ],
])('bounds what a template costs: %s', (template, why) => {
  expect(() => new Template(template).render({}, BOUNDS)).toThrow(why);
});

it.each([
  ["{{ ('1' * 60000 ~ 'x') | float }}", '0.0'],
  ["{{ ('a' * 60000).expandtabs() | length }}", '60000'],
  ["{{ ('a' * 60000).rfind('a' * 30000 ~ 'b') }}", undefined],
])('takes linear time for a long text: %s', TIMED, (template, right) => {
  const begin = process.cpuUsage();
  expect(rendered({ template, variables: '{}' })).toBe(right);
  expect(process.cpuUsage(begin).user / 1000).toBeLessThan(500);
});

it.each(['pprint', 'random', 'striptags', 'urlize', 'wordwrap'])('refuses the filter %s by name', (name) => {
  const template = new Template(`{{ 'a' | ${name} }}`);
  expect(() => template.render({}, BOUNDS)).toThrow(`The filter '${name}' is not supported.`);
});

it('writes dates as strftime does', () => {
  const date = new Date(2026, 2, 5, 14, 7, 9);
  expect(strftime('%Y-%m-%d %d %b %Y, %A %B %-d %H:%M:%S %I %p %y %j %% %F %Q', date)).toBe(
    '2026-03-05 05 Mar 2026, Thursday March 5 14:07:09 02 PM 26 064 % 2026-03-05 %Q',
  );
});
