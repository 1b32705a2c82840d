/** The job and the result of a response, as they are sent between processes and stored in Redis. */
import { z } from 'zod';
import { chatFields, chatResultFields } from '../shared/chat-work.js';

/** Settings of the request that its answer repeats. */
const echo = z.record(z.string(), z.unknown());

export const storedJob = z.object({ kind: z.literal('respond'), ...chatFields, echo });

export const storedResult = z.object({ kind: z.literal('respond'), ...chatResultFields });

export const storedForm = z.object({ echo, experts: z.boolean() });

export type RespondJob = z.infer<typeof storedJob>;
export type RespondResult = z.infer<typeof storedResult>;
export type RespondForm = z.infer<typeof storedForm>;
