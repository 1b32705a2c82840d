/** The job and the result of a chat, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { chatFields, chatResultFields } from '../shared/chat-work.js';

export const storedJob = z.object({
  kind: z.literal('chat'),
  ...chatFields,
  /** Whether the answer shows the token ids. The result always contains them. */
  showTokenIds: z.boolean().exactOptional(),
});

export const storedResult = z.object({ kind: z.literal('chat'), ...chatResultFields });

export const storedForm = z.object({
  logprobs: z.boolean(),
  tokenIds: z.boolean(),
  experts: z.boolean(),
  tokenExperts: z.boolean().exactOptional(),
});

export type ChatJob = z.infer<typeof storedJob>;
export type ChatResult = z.infer<typeof storedResult>;
export type ChatForm = z.infer<typeof storedForm>;
