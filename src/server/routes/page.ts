/**
 * The web page of the server. It shows the model, the budget and the residency of experts, and has a form to try it.
 */
import type { Response } from 'express';
import { PAGE_HTML } from '../page/html.js';
import { PAGE_SCRIPT } from '../page/script.js';
import { PAGE_STYLE } from '../page/style.js';
import type { Route } from '../route.js';

/**
 * Script and style are separate files, because the content security policy allows none inside the page. All three are
 * public, since they hold nothing of the model: a browser sends no key for a page, and the page asks for one.
 */
function file(path: string, summary: string, contentType: string, text: string): Route {
  return {
    method: 'get',
    path,
    scope: 'public',
    summary,
    answers: { 200: { description: summary, contentType } },
    handle(_context, _req, res: Response) {
      res.type(contentType).send(text);
    },
  };
}

export const page = file('/', 'A page that shows the server and tries it', 'text/html', PAGE_HTML);
export const pageScript = file('/assets/page.js', 'Script of the page', 'text/javascript', PAGE_SCRIPT);
export const pageStyle = file('/assets/page.css', 'Style of the page', 'text/css', PAGE_STYLE);
