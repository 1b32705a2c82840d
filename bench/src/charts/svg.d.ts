/** Charts as SVG text, without a browser. */
import type { TopLevelSpec } from 'vega-lite';
/** Draws a Vega-Lite specification; its own `config` wins over the common looks. */
export declare function renderSvg(spec: TopLevelSpec): Promise<string>;
