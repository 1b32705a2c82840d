import { constants } from 'node:buffer';
import { type ErrorCode, isMissing, SidaError } from '../errors.js';
import { readRegularFile } from './regular-file.js';

/** Larger texts do not fit a string. */
const MOST_BYTES = constants.MAX_STRING_LENGTH;

/**
 * The text of a file that the user names, which may lie anywhere. Throws an error of `code` that begins with the path,
 * also when there is no such file.
 */
export function readTextFile(path: string, code: ErrorCode, mostBytes = MOST_BYTES): string {
  try {
    return readRegularFile(path, { code, mostBytes }).toString('utf8');
  } catch (error) {
    throw isMissing(error) ? new SidaError({ code, message: `${path}: no such file` }) : error;
  }
}
