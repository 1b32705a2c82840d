/** Okabe and Ito's palette, which colour-blind readers can distinguish. */
export const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'] as const;
