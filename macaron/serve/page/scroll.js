// Keeps the end of the conversation in sight for those who are at its end, and for nobody else.

const NEAR_PX = 80;

/** Does a change to the page; who saw its end before, sees it afterwards. */
export function following(change) {
  const root = document.documentElement;
  const near = root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_PX;
  change();
  if (near) toEnd();
}

export function toEnd() {
  document.documentElement.scrollTop = document.documentElement.scrollHeight;
}
