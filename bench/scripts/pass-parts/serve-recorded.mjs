// Sentences served by a `sida serve` that records a profile.
import { ServeProcess } from '../../dist/support/serve-process.js';

export const TEMPLATE = 'sst2 sentence: {text}';

/** Every sentence once, from several clients; the recording lies in `profile`. `flags`: those that name the model. */
export async function serveRecorded({ flags, sentences, clients, profile }) {
  // biome-ignore format: a command line
  const server = await ServeProcess.start([...flags, '--max-batch-tokens', '256', '--batch-wait-ms', '0',
    '--log-level', 'error', '--profile', profile]);
  try {
    const left = [...sentences];
    const client = async () => {
      for (let text = left.shift(); text !== undefined; text = left.shift()) {
        const labels = ['negative', 'positive'];
        await server.post('/v1/classify', { template: TEMPLATE, labels, input: text });
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  } finally {
    await server.stop();
  }
}
