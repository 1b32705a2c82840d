/** `stream_options` of chats and completions. */
import { z } from 'zod';
import { SidaError } from '../../errors.js';

export const StreamOptions = z
  .object({
    include_usage: z.boolean().nullish().meta({
      description: 'Whether a last chunk without choices reports `usage`, which is null in the others',
    }),
  })
  .nullish()
  .meta({ description: 'Only with `stream`' });

interface StreamRequest {
  stream?: boolean | null | undefined;
  stream_options?: z.infer<typeof StreamOptions>;
}

/** Whether a stream ends with a chunk that reports the usage. Throws invalid_request for options of no stream. */
export function streamUsageOf({ stream, stream_options: options }: StreamRequest): boolean {
  if (options != null && stream !== true) {
    const message = `Expected "stream" to be true beside "stream_options", but got ${stream ?? 'nothing'}`;
    throw new SidaError({ code: 'invalid_request', message, param: 'stream_options' });
  }
  return options?.include_usage ?? false;
}
