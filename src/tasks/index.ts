/** All tasks, in the order of the OpenAPI document. A new task needs its own folder and a line here. */
import { chat } from './chat/index.js';
import { classify } from './classify/index.js';
import { complete } from './complete/index.js';
import { detokenize } from './detokenize/index.js';
import { embed } from './embed/index.js';
import { respond } from './respond/index.js';
import { tokenize } from './tokenize/index.js';
import { translate } from './translate/index.js';

export const TASKS = [chat, complete, respond, embed, classify, translate, tokenize, detokenize] as const;
