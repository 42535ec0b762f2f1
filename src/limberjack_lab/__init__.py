"""The lab: what Limberjack is measured by. Tables against peers (`bench`) and the papers remade (`papers`)."""
