/** All tasks, in the order of the OpenAPI document. A new task needs its own folder and a line here. */
import { classify } from './classify/index.js';
import { complete } from './complete/index.js';
import { tokenize } from './tokenize/index.js';
import { translate } from './translate/index.js';

export const TASKS = [classify, complete, translate, tokenize] as const;
