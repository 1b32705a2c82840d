/**
 * The route table. The tests of keys, methods and the OpenAPI document iterate over it, so they cover every route.
 */

import { ALL_TASKS } from '../../tasks/registry.js';
import { DIALECTS } from '../dialects/index.js';
import type { Route } from '../route.js';
import {
  deleteRequest,
  getBudget,
  getExperts,
  getPredictor,
  postProfile,
  putBudget,
  putPredictor,
} from './admin.js';
import { getExpertsEvents } from './experts-events.js';
import { deleteJob, getJob, getJobEvents, postJob } from './jobs.js';
import { PAGES } from './page.js';
import { quoteRoute } from './quote.js';
import { getModel, health, listModels, live, metrics, openapiRoute, ready, version } from './service.js';
import { taskRoute } from './task.js';

/** The routes of a worker, which serves only probes and scrapes. */
export const SERVICE_ROUTES: readonly Route[] = [health, live, ready, metrics];

export const ROUTES: readonly Route[] = [
  ...ALL_TASKS.map(taskRoute),
  ...DIALECTS.flatMap(({ routes }) => routes),
  quoteRoute(() => ROUTES),
  postJob,
  getJob,
  deleteJob,
  getJobEvents,
  listModels,
  getModel,
  health,
  live,
  ready,
  version,
  metrics,
  openapiRoute(() => ROUTES),
  getBudget,
  putBudget,
  getExperts,
  getExpertsEvents,
  deleteRequest,
  getPredictor,
  putPredictor,
  postProfile,
  ...PAGES,
];
