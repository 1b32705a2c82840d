// The log as people read it.
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { SidaError } from '../../../src/errors.js';
import { prettyLog } from '../../../src/observability/pretty-log.js';

function logged(log: (logger: pino.Logger) => void): string {
  let text = '';
  const write = (line: string) => {
    text += prettyLog(line);
  };
  log(pino({ base: { pid: 1 }, timestamp: pino.stdTimeFunctions.isoTime }, { write }));
  return text.replace(/^\d\d:\d\d:\d\d /gm, 'TIME ');
}

describe('the log for people', () => {
  it('has time, model, message and fields', () => {
    expect(logged((log) => log.child({ model: 'm' }).info({ phase: 'loading' }, 'checking files'))).toBe(
      'TIME m  checking files\n',
    );
    expect(logged((log) => log.warn({ restarts: 2, why: 'x' }, 'engine restarts'))).toBe(
      'TIME  warning: engine restarts  restarts=2 why=x\n',
    );
  });

  it('tells a request in its own words', () => {
    const request = { requestId: 'req_1', method: 'POST', path: '/v1/x', status: 200, ms: 1.5 };
    expect(logged((log) => log.info(request, 'request'))).toBe(
      'TIME  POST /v1/x 200 in 1.5 ms  requestId=req_1\n',
    );
  });

  it('has a stack for faults alone', () => {
    const refused = new SidaError({ code: 'io_error', message: 'no room' });
    expect(logged((log) => log.error({ err: refused }, 'job failed'))).toBe(
      'TIME  error: job failed: no room\n',
    );
    expect(logged((log) => log.error({ err: new TypeError('x') }, 'failed'))).toMatch(/: x\n {4}at /);
  });

  it('escapes what a terminal would obey', () => {
    expect(logged((log) => log.info({ model: 'a\u001b[2J\nb' }, 'c\u202e'))).toBe(
      'TIME a\\u001b[2J\\u000ab  c\\u202e\n',
    );
  });
});
