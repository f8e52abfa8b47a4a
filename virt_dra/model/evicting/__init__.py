"""When NoExecute taints evict whoever uses a claim (C-11): ``causes``, the taints of slices (``published``) and of
DeviceTaintRules (``rules``). Whom this concerns is decided above."""
