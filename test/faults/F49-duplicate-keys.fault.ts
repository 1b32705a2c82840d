// Bodies with a key that stands twice, of which two readers may take different values.
import { afterAll, beforeAll, expect } from 'vitest';
import { fault } from './fault.js';
import { Subject } from './subject.js';

let subject: Subject;
beforeAll(async () => {
  subject = await Subject.start();
});
afterAll(() => subject.stop());

const MIB = 1024 ** 2;
const escaped = (text: string) =>
  [...text].map((letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
const INPUTS = `[${Array.from({ length: 31 }, () => '"a"').join()},{"text":"a","te\\u0078t":"b"}]`;

const BODIES: [path: string, body: string, param: string][] = [
  ['/v1/classify', '{"task":"sst2","input":"a","input":"a"}', 'input'],
  ['/v1/classify', `{"task":"sst2","input":"a","${escaped('input')}":"b"}`, 'input'],
  ['/v1/classify', '{"task":"sst2","\\u0069nput":"a","i\\u006Eput":"b"}', 'input'],
  ['/v1/classify', '{"task":"sst2","input":{"text":"a" , "text" : "b"}}', 'input.text'],
  ['/v1/classify', `{"task":"sst2","input":${INPUTS}}`, 'input.31.text'],
  ['/v1/classify', '{"nowhere":[[[{"é":0,"\\u00e9":1}]]]}', 'nowhere.0.0.0.é'],
  ['/v1/completions', '{"prompt":"a","max_tokens":1,"max_tokens":9}', 'max_tokens'],
  [
    '/v1/completions',
    '{"prompt":"a","stream_options":{"include_usage":true,"include_usage":false}}',
    'stream_options.include_usage',
  ],
  ['/v1/tokenize', '{"input":"a","":1,"":2}', ''],
  ['/v1/jobs', '{"type":"classify","task":"sst2","input":"a","type":"complete"}', 'type'],
  ['/admin/budget', '{"device":"1GiB","device":"1B"}', 'device'],
];

fault('F49', 'a key twice in a body', async (report) => {
  for (const [path, body, param] of BODIES) {
    const method = path.startsWith('/admin') ? 'PUT' : 'POST';
    const { status, json } = await subject.ask(path, { method, body });
    expect([body, status, json.error.code, json.error.param]).toEqual([body, 400, 'invalid_json', param]);
    expect(json.error.message).toContain(JSON.stringify(param.split('.').at(-1)));
  }
  report.note(`${BODIES.length} bodies: 400 with the key and its path`);

  const risen = await subject.watchMemory();
  const fields = Array.from({ length: 4_000 }, (_, i) => `"${escaped('k')}${i}${'x'.repeat(200)}":0`);
  for (let round = 0; round < 50; round += 1) {
    const body = `{${[...fields, fields[round]].join()}}`;
    const { status, json } = await subject.ask('/v1/classify', { method: 'POST', body });
    expect([status, json.error.code]).toEqual([400, 'invalid_json']);
    expect(json.error.message.length).toBeLessThan(500);
  }
  report.note(`50 bodies of ${fields.length} keys: memory rises by ${Math.round(risen() / MIB)} MiB at most`);
  expect(risen()).toBeLessThan(64 * MIB);
  await subject.recovered(report);
});
