/** The web page of the server and the page of its interface, which Vite builds from src/page. */
import { readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Response } from 'express';
import { SidaError } from '../../errors.js';
import type { Route } from '../route.js';

/** From sources and from the build, which lie at the same depth. */
const BUILT = fileURLToPath(new URL('../../../dist/page/', import.meta.url));
const read = new Map<string, Buffer>();

/** Throws not_found for a file that the build did not make. */
function send(res: Response, path: string): void {
  let bytes = read.get(path);
  if (bytes === undefined) {
    try {
      bytes = readFileSync(join(BUILT, path));
    } catch {
      throw new SidaError({ code: 'not_found', message: `The page has no file ${path}` });
    }
    read.set(path, bytes);
  }
  res.type(extname(path)).send(bytes);
}

/**
 * The files are public, since they hold nothing of a model: a browser sends no key for a page, and the page asks for
 * one.
 */
function file(path: string, name: string, summary: string, contentType: string): Route {
  return {
    method: 'get',
    path,
    scope: 'public',
    summary,
    answers: { 200: { description: summary, contentType } },
    handle: (_context, _req, res) => send(res, name),
  };
}

const asset = (name: string, contentType: string) =>
  file(`/assets/${name}`, `assets/${name}`, 'A part of the pages', contentType);

export const PAGES: readonly Route[] = [
  file('/', 'index.html', 'A page that chats and shows the memory and experts of a model', 'text/html'),
  file('/docs', 'docs.html', 'This interface as a page', 'text/html'),
  ...['page.js', 'docs.js', 'style.js'].map((name) => asset(name, 'text/javascript')),
  asset('style.css', 'text/css'),
];
