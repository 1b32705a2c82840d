/**
 * Wrong tables, as a control: the predictor's default function with the experts of each layer renamed. The tables list
 * as many experts, so they move as many bytes. `sida serve` takes this module with SIDA_HASH_FUNCTION_MODULE.
 */
import { ExpertNames } from '../../../dist/evaluation/routings.js';
import { type HashFunction, type NamedExperts, routingShape } from '../../../dist/predictor/hash-function.js';
import {
  type OpenedPredictor,
  openTrained,
  type PredictorDirectoryOptions,
} from '../../../dist/predictor/predictor-directory.js';
import { PrefixStepper } from './replay.js';

export async function open(directory: string, options: PredictorDirectoryOptions): Promise<OpenedPredictor> {
  const { function: inner, warnings } = await openTrained(directory, options);
  const shape = routingShape(options.model);
  const names = new ExpertNames(shape);
  const fill: HashFunction['fill'] = (stack, input, into: NamedExperts) => {
    if (!inner.fill(stack, input, into)) return false;
    names.rename(stack, into.experts);
    return true;
  };
  const stepper = () => (shape.stacks.at(-1)!.layers === 0 ? null : new PrefixStepper({ fill }, shape));
  return { function: { name: 'shuffled', fill, stepper, close: () => inner.close() }, warnings };
}
