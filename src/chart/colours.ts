/** Okabe and Ito's colours: colour-blind readers tell them apart too. */
export const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'] as const;
