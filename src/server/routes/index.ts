/** The route table. Tests of keys, methods and the OpenAPI document walk it, so a route cannot be forgotten. */
import { getBudget, getExperts, putBudget } from './admin.js';
import { classify } from './classify.js';
import { completions } from './completions.js';
import { live, ready } from './health.js';
import { deleteJob, getJob, getJobEvents, postJob } from './jobs.js';
import { metrics } from './metrics.js';
import { getModel, listModels } from './models.js';
import { openapiRoute } from './openapi.js';
import { page, pageScript, pageStyle } from './page.js';
import { postProfile } from './profile.js';
import type { Route } from './route.js';
import { tokenize } from './tokenize.js';

/** Of a process that takes no requests: what probes and scrapes ask. */
export const SERVICE_ROUTES: readonly Route[] = [live, ready, metrics];

export const ROUTES: readonly Route[] = [
  classify,
  completions,
  tokenize,
  postJob,
  getJob,
  deleteJob,
  getJobEvents,
  listModels,
  getModel,
  live,
  ready,
  metrics,
  openapiRoute(() => ROUTES),
  getBudget,
  putBudget,
  getExperts,
  postProfile,
  page,
  pageScript,
  pageStyle,
];
