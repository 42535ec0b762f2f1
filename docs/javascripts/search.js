// A message pasted into the search box: quotes and signs are operators of the search there, and the names and numbers
// that were put into the message are on no page. What is left are the words that the page of messages has.
document.addEventListener("paste", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || box.dataset.mdComponent !== "search-query") return;
  const text = event.clipboardData.getData("text/plain").replace(/^limberjack: /, "");
  const plain = text.replace(/["`']/g, " ").replace(/[^\p{L}\p{N}_.]+/gu, " ").trim();
  const words = text.replace(/"[^"]*"/g, " ").replace(/\S*\d\S*/g, " ").replace(/[^\p{L}_]+/gu, " ").replace(/\b\w\b/g, " ").trim();
  event.preventDefault();
  box.setRangeText(words || plain, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new KeyboardEvent("keyup"));
});
