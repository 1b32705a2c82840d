import { expect, it } from 'vitest';
import { htmlOf } from '../../../src/page/markdown.js';

it.each([
  ['<script>alert(1)</script>', '<script'],
  ['<img src=x onerror=alert(1)>', '<img'],
  ['[a](javascript:alert(1))', 'javascript:'],
  ['<javascript:alert(1)>', 'href="javascript'],
  ['![a](data:text/html,x)', 'data:text'],
  ['<a href="x" onclick="alert(1)">a</a>', '<a '],
])('writes no HTML of %s', (text, forbidden) => {
  expect(htmlOf(text)).not.toContain(forbidden);
});

it('writes code, lists and tables', () => {
  expect(htmlOf('```js\na < b\n```')).toContain('a &lt; b');
  expect(htmlOf('- one\n- two')).toContain('<li>two</li>');
  expect(htmlOf('| a |\n| - |\n| b |')).toContain('<td>b</td>');
});

it('opens links on another page, and writes no address that it drops', () => {
  expect(htmlOf('[a](https://x.org)')).toContain('<a target="_blank" rel="noopener" href="https://x.org">');
  expect(htmlOf('[a](javascript:b)')).toBe('<p><a>a</a></p>');
  expect(htmlOf('a[^1]\n\n[^1]: b')).not.toContain('id=');
  expect(htmlOf('- [ ] a')).toContain('aria-label');
});
