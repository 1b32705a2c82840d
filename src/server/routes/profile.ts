/** Records a profile of the running engine while the request waits. */
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { SidaError } from '../../errors.js';
import { control } from '../context.js';
import { chosenModel, ModelQuery } from '../model-query.js';
import { ProfileRequest } from '../schemas/admin.js';
import { ErrorAnswer } from '../schemas/error.js';
import { bodyRoute } from './route.js';

export const postProfile = bodyRoute({
  method: 'post',
  path: '/admin/profile',
  scope: 'admin',
  summary: 'Records what every thread of the engine does and answers with a Chrome trace',
  body: ProfileRequest,
  answers: {
    200: {
      description: 'The Trace Event Format of chrome://tracing and Perfetto',
      contentType: 'application/json',
    },
    422: { description: 'A profile is being recorded already', schema: ErrorAnswer },
  },
  query: ModelQuery,
  async handle(server, req, res, { seconds }) {
    const context = chosenModel(server, req);
    const { deadline } = context.options;
    if (seconds * 1000 > deadline) {
      const message = `Expected "seconds" to be at most the deadline of ${deadline / 1000} s, found ${seconds}`;
      throw new SidaError({ code: 'invalid_request', message, param: 'seconds' });
    }
    const gone = new AbortController();
    res.once('close', () => gone.abort());
    await control(context, { kind: 'start-profile' });
    try {
      await delay(seconds * 1000, undefined, { signal: gone.signal });
    } catch {
      await control(context, { kind: 'stop-profile', file: null });
      return;
    }
    const directory = await mkdtemp(join(tmpdir(), 'sida-profile-'));
    try {
      const file = join(directory, 'profile.json');
      await control(context, { kind: 'stop-profile', file });
      res.type('json');
      await pipeline(createReadStream(file), res).catch((error: NodeJS.ErrnoException) => {
        // A client that has gone away needs no answer.
        if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
      });
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  },
});
