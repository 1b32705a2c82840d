import { z } from 'zod';

export const ErrorAnswer = z
  .object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      code: z.string(),
      param: z.string().nullable(),
      details: z.record(z.string(), z.number()).optional(),
    }),
  })
  .meta({ id: 'Error' });
